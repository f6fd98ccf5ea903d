"""Serves a model by llama.cpp's own server, on a free port that it tells, until its input ends. Run
by the Python that has `xllamacpp`, without this repository's packages:

    python serve.py MODEL.gguf TEMPLATE.jinja
"""

import sys
from pathlib import Path

import xllamacpp  # type: ignore[import-not-found]


def main(model: str, template: str) -> None:
    """Serve."""
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.chat_template = Path(template).read_text()
    params.use_jinja = True
    params.n_ctx = 65_536
    params.n_parallel = 1
    params.warmup = False
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:3])
