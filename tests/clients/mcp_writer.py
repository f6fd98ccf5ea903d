"""An MCP server on standard input and output, with one tool that has a very long name. It runs in
the agents' virtual environment.
"""

from pathlib import Path

from mcp.server import MCPServer  # type: ignore[import-not-found]  # not of this environment

server = MCPServer("archive")


@server.tool(  # type: ignore[untyped-decorator]
    name="write_a_text_file_into_the_archive_and_say_how_many_characters_it_holds",
    description="Archives a text: the tool with the long name.",
)
def write(path: str, content: str) -> str:
    """Write the file."""
    Path(path).write_text(content)
    return f"archived {len(content)} characters"


server.run()
