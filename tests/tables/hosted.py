"""What only OpenAI's own service can run or describe: items of a history, and tools."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]

ITEMS: tuple[JsonObject, ...] = (
    {"type": "file_search_call", "id": "i", "status": "completed", "queries": []},
    {"type": "web_search_call", "id": "i", "status": "completed", "action": {"type": "search"}},
    {"type": "code_interpreter_call", "id": "i", "status": "completed", "container_id": "c"},
    {"type": "image_generation_call", "id": "i", "status": "completed", "result": "x"},
    {"type": "mcp_list_tools", "id": "i", "server_label": "s", "tools": []},
    {"type": "mcp_call", "id": "i", "server_label": "s", "name": "n", "arguments": "{}"},
    {"type": "mcp_approval_request", "id": "i", "server_label": "s", "name": "n"},
    {"type": "mcp_approval_response", "approval_request_id": "i", "approve": True},
    {"type": "computer_call", "id": "i", "call_id": "c", "status": "completed"},
    {"type": "computer_call_output", "call_id": "c", "output": {}},
    {"type": "tool_search_call", "arguments": {}, "execution": "client"},
    {"type": "tool_search_output", "tools": [], "execution": "client"},
    {"type": "program", "id": "i", "call_id": "c", "code": "", "fingerprint": "f"},
    {"type": "program_output", "id": "i", "call_id": "c", "result": "r"},
    {"type": "compaction", "encrypted_content": "x"},
)

TOOLS = (
    "file_search",
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "code_interpreter",
    "image_generation",
    "mcp",
    "tool_search",
    "programmatic_tool_calling",
    "computer",
    "computer_use_preview",
)
