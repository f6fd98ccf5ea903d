"""The configuration of a gateway: one TOML file, checked and resolved into typed settings."""

from dragoman.config.access_checks import access_faults
from dragoman.config.access_rules import AccessRules, KeyRules
from dragoman.config.errors import ConfigError, Problem
from dragoman.config.load import Loaded, parse_config, read_config
from dragoman.config.names import matches
from dragoman.config.secret import Secret, SecretError
from dragoman.config.settings import (
    Account,
    Admin,
    AuthStyle,
    Client,
    Config,
    Fallback,
    LogFormat,
    LogLevel,
    Models,
    OwnPrice,
    Pricing,
    Probe,
    ProtocolName,
    Route,
    Selection,
    Server,
    Storage,
    Team,
    Timeouts,
    Upstream,
    Webhook,
    WebSocket,
)

__all__ = [
    "AccessRules",
    "Account",
    "Admin",
    "AuthStyle",
    "Client",
    "Config",
    "ConfigError",
    "Fallback",
    "KeyRules",
    "Loaded",
    "LogFormat",
    "LogLevel",
    "Models",
    "OwnPrice",
    "Pricing",
    "Probe",
    "Problem",
    "ProtocolName",
    "Route",
    "Secret",
    "SecretError",
    "Selection",
    "Server",
    "Storage",
    "Team",
    "Timeouts",
    "Upstream",
    "WebSocket",
    "Webhook",
    "access_faults",
    "matches",
    "parse_config",
    "read_config",
]
