"""Gateways of others that can be had from a package registry, and how each is run."""

from bench.peers import litellm, llm_rosetta, portkey
from bench.peers.recipe import Recipe

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe for recipe in (litellm.RECIPE, llm_rosetta.RECIPE, portkey.RECIPE)
}
