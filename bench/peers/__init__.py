"""Gateways of others that can be had from a package registry or as source, and how each is run."""

from bench.peers import cli_proxy_api, litellm, llm_rosetta, portkey
from bench.peers.recipe import Recipe

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (litellm.RECIPE, cli_proxy_api.RECIPE, llm_rosetta.RECIPE, portkey.RECIPE)
}
