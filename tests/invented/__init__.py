"""A protocol that no vendor speaks, registered by the tests alone: a further protocol is one
package and one call."""
