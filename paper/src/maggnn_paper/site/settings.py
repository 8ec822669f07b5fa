"""Settings on the site: an extension of griffe, which mkdocstrings reads sources with.

A setting is declared as `name: type = option(default, "description")`. Griffe reads sources without running them, so
without this extension a page would show the call of `option` in place of the default and no description.
"""

from __future__ import annotations

import ast
from typing import Any

from griffe import Attribute, Docstring, Expr, Extension


class SettingDescriptions(Extension):
    """Show the default and the description of each setting that `maggnn.config.sections.option` declares."""

    def on_attribute_instance(self, *, node: Any, attr: Attribute, **kwargs: Any) -> None:
        """Replace the call by its first two arguments.

        Args:
            node: The assignment as Python parses it.
            attr: The attribute as griffe describes it, which is changed in place.
            **kwargs: What else griffe passes on.
        """
        call = node.value if isinstance(node, ast.AnnAssign) else None
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "option"):
            return
        default, description = call.args[0], ast.literal_eval(call.args[1])
        experimental = any(word.arg == "experimental" for word in call.keywords)
        section = " Experimental: in a TOML file it stands under `[experimental.<section>]`." if experimental else ""
        attr.value = _as_written(default)
        attr.docstring = Docstring(f"{description[:1].upper()}{description[1:]}.{section}", parent=attr)


def _as_written(default: ast.expr) -> str | Expr:
    return ast.unparse(default)
