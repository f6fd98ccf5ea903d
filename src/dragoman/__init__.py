"""An LLM gateway and translation library for Chat Completions, Messages and Responses."""

from typing import Final

__version__: Final = "0.1.0"
