/** The JSON that the page reads from the paths below `/admin`, for the type check alone. */
declare namespace Api {
  type AccountState = "active" | "trial" | "cooling" | "exhausted" | "disabled";
  type AccountAction = "enable" | "disable";
  type OwnerKind = "key" | "team";
  type Policy = "strict" | "balanced" | "lenient";

  interface Session {
    name: string;
    role: "admin" | "viewer";
    expires_at: number | null;
    version: string;
    instance: string;
  }
  interface Error {
    message?: string;
    param?: string;
    faults?: { field: string; message: string }[];
    problems?: string[];
  }
  interface Refused {
    name: string;
    message: string;
  }

  // Accounts

  interface QuotaWindow {
    used: number | null;
    resets_at: number | null;
    told_at: number;
    seconds: number | null;
  }
  /** All accounts, by columns: a value for each. */
  interface AccountsTable {
    version: number;
    columns: {
      name: string[];
      upstream: string[];
      state: AccountState[];
      why: string[];
      back_at: (number | null)[];
      in_flight: number[];
      last_used: (number | null)[];
      requests: number[];
      errors: number[];
      cost_usd: string[];
      unpriced: number[];
      last_error: (string | null)[];
      failed_at: (number | null)[];
      windows: Record<
        string,
        {
          used: (number | null)[];
          resets_at: (number | null)[];
          told_at: (number | null)[];
          seconds: (number | null)[];
        }
      >;
    };
  }
  interface Account {
    name: string;
    upstream: string;
    origin: string;
    state: Exclude<AccountState, "trial">;
    trial: boolean;
    priority: number;
    back_at: number | null;
    problem: string | null;
    reasons: { why: string; model: string | null }[];
    quotas: (QuotaWindow & { name: string; model: string | null })[];
    requests: number;
    errors: number;
    retries: number;
    in_flight: number;
    max_concurrent: number | null;
    last_used: number | null;
    last_error: { at: number; kind: string; status: number | null } | null;
    secrets: string[];
    credentials: string;
  }
  interface AccountChange {
    at: number;
    change: string;
    why: string | null;
    model: string | null;
    status: number | null;
    source: string | null;
    until: number | null;
  }
  interface Usage {
    by: Record<string, string>;
    requests: number;
    errors: number;
    input: number;
    cached: number;
    output: number;
    estimated: number;
    cost_usd: string;
    unpriced: number;
  }
  interface UsageReport {
    rows: Usage[];
    total: Usage;
  }
  interface ImportReport {
    rows: number;
    added: number;
    replaced: number;
    bad: { at: number; name: string; faults: { field: string; message: string }[] }[];
    same_keys: string[][];
  }
  interface TestFinding {
    account?: string;
    name?: string;
    passed: boolean;
    model: string;
    milliseconds: number;
    status?: number;
    message?: string;
    why?: string;
    message?: string;
    account_is?: string;
  }

  // Requests

  interface TokenUsage {
    input: number;
    output: number;
    cached?: number;
    cache_write?: number;
    reasoning?: number;
  }
  interface RequestRow {
    at: number;
    id: string;
    status: number;
    error: string;
    refusal: string;
    key: string;
    client: string;
    model: string;
    upstream: string;
    account: string;
    attempts: number;
    first_ms: number | null;
    ms: number;
    usage: TokenUsage | null;
    cost_usd: string | null;
    estimated: boolean;
    losses_total: number;
    loss_kinds: string[];
    limit: string;
  }
  interface Attempt {
    account: string;
    status: number;
    kind: string;
    start_ms: number;
    end_ms: number;
    bytes_up?: number;
    bytes_down?: number;
    row: number | null;
    table: string;
    why: string;
    rest_s: number | null;
  }
  interface ChosenFrom {
    serving: number;
    left_out: [why: string, number: number][];
    could_serve: number;
    selection: string;
  }
  interface Loss {
    path: string;
    kind: string;
    detail: string;
  }
  interface RequestDetail extends RequestRow {
    why: Record<string, string>;
    losses: Loss[];
    tried: Attempt[];
    chosen_from: ChosenFrom | null;
    accounts: number | null;
    queue_ms: number;
    conversation: string | null;
    moved: boolean;
    user_agent: string;
    route: string;
    stream: boolean;
    protocol: string;
    upstream_model: string;
    purpose: Record<string, string> | null;
    team: string;
    finish: string;
    trace_id: string;
  }
  /** A sample of the requests that ended lately. */
  interface RequestsEvent {
    rows: RequestRow[];
    seen: number;
    shown: number;
  }

  // Keys, teams and their limits

  interface Limit {
    kind: string;
    amount: string | number;
    window?: string | null;
    mode?: string | null;
    models?: string[] | null;
    granted?: string | number;
    granted_until?: string;
  }
  interface LimitView {
    number: number;
    limit: Limit;
    state: {
      amount: string | number;
      used: string | number;
      reserved: string | number;
      resets_at: string | null;
      exhausted_at: string | null;
    };
  }
  interface KeySecret {
    ending: string;
    created: string;
    revoked: string | null;
  }
  /** A key or a team. */
  interface Owner {
    name: string;
    kind: OwnerKind;
    origin: string;
    state: string;
    rules: { team?: string } & Record<string, unknown>;
    limits: LimitView[];
    /** Of a key. */
    secrets: KeySecret[];
    used: string | null;
    /** Of a team: how many it has. */
    keys: number;
  }

  interface Person {
    name: string;
    state: "active" | "disabled" | "refused";
    team: string | null;
    /** The number of the rule that lets the person in, from 1. */
    rule: number | null;
    groups: string[];
    sessions: number;
    used: string | null;
  }
  /** What a person would be given who signs in. */
  interface Rights {
    email: string;
    state: "active" | "disabled" | "refused";
    reason: string;
    rule: number | null;
    team: string | null;
    role: string | null;
    models: string[];
    limits: Limit[];
    team_limits: Limit[];
    managed_settings: Record<string, unknown> | null;
  }
  interface PersonSession {
    id: string;
    person: string;
    client: string;
    began: string;
    confirmed: string;
    used: string | null;
  }

  // MCP servers

  interface McpServer {
    name: string;
    host: string;
    authorised_by: string;
    tools: string[] | null;
    teams: Record<string, string[]>;
    calls: number;
    errors: number;
    last_error: string | null;
    last_failed: string | null;
    failed_at: string | null;
  }

  // The overview

  type Values = (number | null)[];
  interface Percentiles {
    p50: Values;
    p95: Values;
    p99: Values;
  }
  interface SeriesAnswer {
    from: number;
    step_s: number;
    requests: Record<"answered" | "client" | "limited" | "failed" | "left", Values>;
    tokens: Record<"input" | "cached" | "output", Values>;
    first_token_s: Percentiles;
    duration_s: Percentiles;
    cost_usd: (string | null)[];
    unpriced: Values;
    errors: Record<"caller" | "gateway" | "upstream", Record<string, number>>;
    marks: { at: number; text: string }[];
  }
  interface Health {
    version: string;
    workers: number;
    in_flight: number;
    queue_length: number;
    store: string;
    limits: string;
    accounts: Record<string, Record<Exclude<AccountState, "trial">, number>>;
    trials: Record<string, Record<string, number>>;
    back_at: Record<string, { exhausted?: number; cooling?: number }>;
    resting: Record<string, string>;
    unpriced_budgets: { scope: OwnerKind; owner: string; model: string; upstream: string }[];
  }
  interface NowEvent {
    in_flight: number;
    queue: number;
    requests_s: number;
    input_s: number;
    output_s: number;
  }
  interface LossRow extends Loss {
    client: string;
    pair: string;
    requests: number;
    refused: number;
    share: number | null;
    series: number[];
    example: string;
    last: number;
  }

  // Routes and prices

  interface Price {
    input?: string;
    cached?: string;
    cache_write?: string;
    output?: string;
    tier?: string;
    above?: number;
    hours?: string;
    since?: string;
  }
  interface PricedModel {
    name: string;
    own: boolean;
    upstreams: string[];
    prices: Price[];
  }
  interface Destination {
    upstream: string;
    protocol: string;
    model: string;
    usable: number;
    accounts: number;
    prices: Price[];
  }
  interface ExplainedSetting {
    name: string;
    value: unknown;
    origin: string;
  }
  interface Explanation {
    model: string;
    name: string;
    found: boolean;
    policy: string;
    route: { number: number; match: string } | null;
    permission: { key: string; allowed: boolean; reason: string } | null;
    destinations: Destination[];
    with_tools_and_thinking: Destination[];
    options: ExplainedSetting[];
    capabilities: ExplainedSetting[];
  }
  interface Routes {
    routes: {
      match: string;
      upstream: string;
      model: string;
      fallbacks: string[];
      policy: string;
      when: { class: string | null; agent_type: string | null } | null;
      reached_before: number | null;
    }[];
    aliases: Record<string, string>;
  }

  // Clients

  interface Guide {
    name: string;
    speaks: string[];
    setup: { where: string; text: string }[];
    works: string;
    lost: string;
    notes: string;
  }
  interface Guides {
    guides: Guide[];
    models: string[];
    model: string;
  }
  interface Check {
    check: string;
    state: "broken" | "warning" | "not_seen" | "ok";
    what: string;
    problem: string;
    breaks: string;
    remedy: string;
  }

  // The workbench

  interface Verdict {
    passes: boolean;
    paths: string[];
    message: string;
  }
  interface TranslationTarget {
    protocol: string;
    body: string | null;
    losses: Loss[];
    became: Record<string, string[]>;
    added: string[];
    verdicts: Record<Policy, Verdict>;
  }
  interface Translation {
    body: string;
    targets: TranslationTarget[];
    speaks: string | null;
    upstream: string | null;
    policy: string | null;
  }
  interface SendTarget {
    scenario?: string;
    to?: string;
    model?: string;
    max_tokens?: number;
  }
  /** What happened to a request that was sent; which fields there are depends on `event`. */
  interface Frame {
    event: "attempt" | "upstream" | "client" | "done";
    at_ms: number;
    number: number;
    caused_by: number | null;
    raw: string;
    bytes: number;
    account: string;
    upstream: string;
    status: number;
    body: string;
    error: string;
    usage: TokenUsage | null;
    left_out: number;
    id: string;
  }

  // Configuration

  interface ConfigTable {
    name: string;
    settings: { key: string; value: unknown; is_set: boolean; restart: boolean }[];
  }
  type NameChanges = Record<"added" | "removed" | "changed", { names: string[]; more: number }>;
  type ConfigChanges = { settings?: string[]; restart?: string[] } & Record<string, any>;
  interface AuditRow {
    id: number;
    at: number;
    who: string;
    action: string;
    kind: string;
    name: string;
    before: Record<string, unknown> | null;
    after: Record<string, unknown> | null;
    origin: string;
    address: string | null;
  }
}
