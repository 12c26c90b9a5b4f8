"""A group of commands, for the command line and for verbs that have verbs below them."""

from __future__ import annotations

import click

from harness.errors import near_name


class OrderedGroup(click.Group):
    """A group whose help lists commands as they were declared, and whose error for an unknown one names the nearest."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names, and the words after it."""
        name = args[0]
        if name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:
            near = near_name(name, self.commands)
            suggestion = f" Did you mean '{near}'?" if near else ""
            ctx.fail(f"No such command '{name}'.{suggestion}")
        return super().resolve_command(ctx, args)
