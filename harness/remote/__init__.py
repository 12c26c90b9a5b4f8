"""Calls of services over HTTP: counted and limited, with keys that are never shown."""
