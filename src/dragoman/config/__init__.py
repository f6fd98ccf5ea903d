"""The configuration of a gateway: one TOML file, checked and resolved into typed settings."""

from dragoman.config.errors import ConfigError, Problem
from dragoman.config.load import Loaded, load_config, parse_config, read_config
from dragoman.config.names import matches
from dragoman.config.secret import Secret, SecretError
from dragoman.config.settings import (
    Account,
    AuthStyle,
    Client,
    Config,
    LogLevel,
    Models,
    ProtocolName,
    Route,
    Server,
    Timeouts,
    Upstream,
)

__all__ = [
    "Account",
    "AuthStyle",
    "Client",
    "Config",
    "ConfigError",
    "Loaded",
    "LogLevel",
    "Models",
    "Problem",
    "ProtocolName",
    "Route",
    "Secret",
    "SecretError",
    "Server",
    "Timeouts",
    "Upstream",
    "load_config",
    "matches",
    "parse_config",
    "read_config",
]
