"""Writes a tiny model for llama.cpp: the vocabulary of a real one, and weights with which it says
one sentence after any prompt. Run by the Python that has `gguf`, without this repository:

    python model.py VOCABULARY.gguf TEMPLATE.jinja MODEL.gguf
"""

import sys
from pathlib import Path

import numpy as np  # type: ignore[import-not-found]
from gguf import (  # type: ignore[import-not-found]
    GGUFReader,
    GGUFValueType,
    GGUFWriter,
)

SENTENCE = ("Hello", "Ġfrom", "Ġllama", ".", "cpp")
"""Its tokens, in the alphabet of byte-level vocabularies."""

_ARCHITECTURE = "qwen2"
_WIDTH, _HEADS, _HIDDEN = 64, 2, 64
_WINDOW = 131_072
_SURE = 30.0
"""The logit of the one token that comes next."""


def main(vocabulary: str, template: str, target: str) -> None:
    """Write the model."""
    reader = GGUFReader(vocabulary)
    writer = GGUFWriter(target, _ARCHITECTURE)
    writer.add_name("tiny")
    writer.add_context_length(_WINDOW)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(_HIDDEN)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    tokens: list[str] = []
    end = 0
    for name, field in reader.fields.items():
        if not name.startswith("tokenizer.") or name == "tokenizer.chat_template":
            continue
        value = field.contents()
        kinds = field.types
        if kinds[0] is GGUFValueType.ARRAY:
            writer.add_array(name, value)
        else:
            writer.add_key_value(name, value, kinds[0])
        if name == "tokenizer.ggml.tokens":
            tokens = value
        elif name == "tokenizer.ggml.eos_token_id":
            end = int(value)
    writer.add_chat_template(Path(template).read_text())
    for name, weights in _weights(tokens, end).items():
        writer.add_tensor(name, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _weights(tokens: list[str], end: int) -> dict[str, np.ndarray]:
    """Attention and the feed-forward part add nothing, so the last token alone decides: each has a
    dimension of its own if it is in the sentence, and all others share one."""
    places = {token: place for place, token in enumerate(tokens)}
    steps = [places[token] for token in SENTENCE]
    embedding = np.zeros((len(tokens), _WIDTH), np.float32)
    embedding[:, 0] = 1.0
    output = np.zeros((len(tokens), _WIDTH), np.float32)
    scale = _SURE / np.sqrt(_WIDTH)
    before = 0
    for dimension, token in enumerate(dict.fromkeys(steps), start=1):
        embedding[token] = 0.0
        embedding[token, dimension] = 1.0
        output[token, before] = scale
        before = dimension
    output[end, before] = scale
    square = np.zeros((_WIDTH, _WIDTH), np.float32)
    none = np.zeros(_WIDTH, np.float32)
    one = np.ones(_WIDTH, np.float32)
    block = {
        **{f"attn_{name}.weight": square for name in ("q", "k", "v", "output")},
        **{f"attn_{name}.bias": none for name in ("q", "k", "v")},
        **{f"ffn_{name}.weight": square for name in ("gate", "up", "down")},
        "attn_norm.weight": one,
        "ffn_norm.weight": one,
    }
    return {
        "token_embd.weight": embedding,
        "output.weight": output,
        "output_norm.weight": one,
        **{f"blk.0.{name}": weights for name, weights in block.items()},
    }


if __name__ == "__main__":
    main(*sys.argv[1:4])
