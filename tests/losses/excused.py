"""What may vanish without a word, each with its reason. Tests hold that every line is needed.

A pattern names `Record.field` or `Record.field=word` of the SDK; `*` stands for anything.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from tests.losses.answers import ECHO

REQUESTS: dict[str, str] = {
    # Words that ask for what happens anyway.
    "*Param.type=message": "An item with a role is a message whether it says so or not.",
    "Message.type=message": "An item with a role is a message whether it says so or not.",
    "*ToolParam.type=custom": "Says of a tool with a schema that it is one.",
    "Text": "A custom tool takes free text unless it has a grammar.",
    "CustomFormatText": "A custom tool takes free text unless it has a grammar.",
    "ResponseFormatText": "An answer is text unless something else was asked for.",
    "CompletionCreateParamsBase.modalities=text": "An answer is text unless asked otherwise.",
    "*.detail=auto": "The default: the model decides.",
    "*.verbosity=medium": "The default of the service.",
    "*.truncation=disabled": "The default of the service.",
    "PromptCacheOptions.mode=implicit": "The default of the service.",
    "Reasoning.context=auto": "The default of the service.",
    "Image.context_compression=auto": "The default of the service.",
    "BackgroundOptions.completion_window=soonest": "The default of the service.",
    "MessageCreateParamsBase.speed=standard": "The default of the service.",
    "BetaSystemMessageParam.clear_at=never": "The default of the service.",
    "*.allowed_callers=direct": "The model itself is the only caller there is elsewhere.",
    "*CallerDirect": "The model itself is the only caller there is elsewhere.",
    "DirectCallerParam": "The model itself is the only caller there is elsewhere.",
    "LocalEnvironmentParam": "Such a tool runs on the client's machine anyway.",
    # Words about a past answer that say nothing to a model.
    "*.status=*": "Items of a past answer are replayed whole, whatever their status was.",
    "ResponseOutputMessageParam.id": "A handle into the service's store, where nothing is stored.",
    "ResponseFunctionToolCallParam.id": "A handle into the service's store; the call has its own.",
    "ResponseCustomToolCall*Param.id": "A handle into the service's store; the call has its own.",
    "*ShellCall.id": "A handle into the service's store; the call has its own.",
    "ApplyPatchCall.id": "A handle into the service's store; the call has its own.",
    "FunctionCallOutput.id": "A handle into the service's store; the call has its own.",
    "AdditionalTools.id": "A handle into the service's store, where nothing is stored.",
    "ResponseConfigurationUpdateItem*.id": "A handle into the service's store, as above.",
    # Wishes about the answer that the gateway itself fulfils.
    "ChatCompletionStreamOptionsParam.include_usage": "Other protocols always send usage.",
    "*.include=reasoning.encrypted_content": "Reasoning comes back in an envelope anyway.",
    "Reasoning.*summary=*": "The gateway itself shows reasoning or does not.",
    "ThinkingConfig*Param.display=*": "The gateway itself shows reasoning or does not.",
    "ThinkingConfigAdaptiveParam": "Without an effort the model decides elsewhere as well.",
}

FOR_INTERACTIONS: dict[str, str] = {
    "*JSONSchema*.name": "A schema for an answer has no name.",
    "*JSONSchema*.strict": "Answers follow their schema in any case.",
}
"""The same of requests for the Interactions API, besides."""

FOR_GOOGLE: dict[str, str] = {
    **FOR_INTERACTIONS,
    "*CreateParamsBase.model": "The path names the model.",
    "*PlainTextSourceParam.data": "It arrives in base64.",
}
"""The same of requests for generateContent, besides."""

SEARCHES: dict[str, str] = {
    "WebSearch*ToolParam.type=*": "All versions become the newest of the other vendor.",
    "*.search_context_size=medium": "The default of the service.",
    "*.search_content_types=text": "Texts are what a search finds.",
    "*.response_inclusion=full": "The default of the service.",
    "UserLocation": "Only OpenAI takes it as said where the user is when nothing is.",
    "UserLocation.type=approximate": "The only type there is.",
}
"""The same of requests on routes where the web search of one vendor becomes the other's."""

ANSWERS: dict[str, str] = {
    # What a gateway says in its own name, or the client's.
    "ChatCompletion*.id": "An answer's id is the gateway's own.",
    "Message.id": "An answer's id is the gateway's own.",
    "Response.id": "An answer's id is the gateway's own.",
    "ResponseOutputMessage.id": "An item's id is the gateway's own.",
    "ResponseFunctionToolCall.id": "An item's id is the gateway's own; the call has another.",
    "ResponseReasoningItem.id": "An item's id is the gateway's own; the envelope holds this one.",
    "ChatCompletion*.model": "The client is shown the model it asked for.",
    "Message.model": "The client is shown the model it asked for.",
    "Response.model": "The client is shown the model it asked for.",
    "ChatCompletion*.created": "The time of the gateway's own answer.",
    "Response.created_at": "The time of the gateway's own answer.",
    "Response.completed_at": "The time of the gateway's own answer.",
    "*.object=*": "Every protocol has a word of its own for an answer.",
    "Message.type=message": "Every protocol has a word of its own for an answer.",
    "Message.role=assistant": "There is no other role in an answer.",
    "ChatCompletion.metadata": "Repeats the request.",
    **{f"Response.{name}": "Repeats the request." for name in sorted(ECHO - {"conversation"})},
    # Places inside the upstream's stream; the gateway counts anew.
    "*.item_id": "Blocks are told apart by their order.",
    "*Event.*_index": "Blocks are told apart by their order.",
    "*Event.index": "Blocks are told apart by their order.",
    "ChoiceDeltaToolCall.index": "Calls are told apart by their order.",
    "Choice.index": "It is the only one.",
    # Said a second time.
    "*.total_tokens": "The sum of two counts that are carried.",
    "ResponseCreatedEvent": "The events after it say the same.",
    "ResponseInProgressEvent": "The events after it say the same.",
    "ResponseQueuedEvent": "The events after it say the same.",
    "ResponseContentPart*Event": "The events around it say the same.",
    "ResponseReasoningSummaryPart*Event": "The events around it say the same.",
    "Response*TextDoneEvent": "Repeats the deltas.",
    "ResponseRefusalDoneEvent": "Repeats the deltas.",
    "ChoiceDeltaToolCall.type=function": "A call with a function is one.",
    "Usage.output_tokens": "A first estimate that the end of the stream replaces.",
    # What no one but the vendor has a use for.
    "ChatCompletionChunk.obfuscation": "Random padding.",
    "ChatCompletion*.system_fingerprint": "The upstream's build: in every answer, of use to none.",
    "*DirectCaller": "The model itself is the only caller there is elsewhere.",
    "CallerDirect": "The model itself is the only caller there is elsewhere.",
    "RefusalStopDetails": "Without category and explanation it says no more than the reason.",
    "CacheCreation.*": "A split for the vendor's invoice; the sum is carried.",
    "ServerToolUsage.*": "A counter for the vendor's invoice.",
    "Usage.inference_geo": "A note for the vendor's invoice.",
    "Usage.speed=standard": "The default of the service.",
}


def excuse(label: str, table: dict[str, str]) -> str | None:
    """The first pattern of the table that matches a label."""
    return next((pattern for pattern in table if fnmatchcase(label, pattern)), None)
