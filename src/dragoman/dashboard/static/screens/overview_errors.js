/** Whose fault errors are, as far as their kinds show it. */

/** Kinds of errors that callers cause; a refused key may be theirs or that of an account. */
const CALLER_FAULTS = [
  "invalid_request",
  "context_too_long",
  "not_found",
  "model_not_found",
  "method_not_allowed",
  "request_timeout",
  "conflict",
  "too_large",
  "unsupported_media_type",
  "unprocessable",
  "upgrade_required",
  "client_gone",
];

/**
 * The kinds of errors, with their numbers, that the gateway, its accounts or an upstream cause.
 * @param {Record<string, number>} errors
 */
export const faultsOf = (errors) =>
  Object.entries(errors).filter(([kind]) => !CALLER_FAULTS.includes(kind));
