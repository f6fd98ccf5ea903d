"""MCP servers behind the gateway: their streamable HTTP transport, with the gateway's keys."""
