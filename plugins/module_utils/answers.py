"""How modules end over a function that looks, judges and acts."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule

# mypy reads gpu_stack as a package of its own.
from .gpu_stack.host.refusal import RefusalError  # type: ignore[import-not-found]
from .gpu_stack.type_checking import TYPE_CHECKING  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from typing import Any, Callable

    Settler = Callable[[dict[str, Any], bool], dict[str, Any]]


def run(
    arguments: dict[str, Any],
    function: Settler,
    *refusals: type[Exception],
    addresses: bool = False,
    **checks: Any,
) -> None:
    """Runs a module of these arguments, which has a check mode; see `settle`.

    addresses: what has no_log are addresses, hidden for their logins. checks: AnsibleModule's, as
    `required_if`.
    """
    module = AnsibleModule(argument_spec=arguments, supports_check_mode=True, **checks)
    if addresses:
        show_addresses_without_logins(module)
    settle(module, function, *refusals)


def settle(module: AnsibleModule, function: Settler, *refusals: type[Exception]) -> None:
    """Ends the module with what `function` returns for its parameters and check mode.

    A RefusalError, and what else is one here by `refusals`, fails the module with its words.
    `warnings` become the module's; a `diff` that nobody asked for is left out.
    """
    try:
        result = function(module.params, module.check_mode)
    except RefusalError as error:
        module.fail_json(msg=str(error), **error.result)
    except refusals as error:
        module.fail_json(msg=str(error))
    for warning in result.pop("warnings", []):
        module.warn(warning)
    if not module._diff:
        result.pop("diff", None)
    module.exit_json(**result)


def show_addresses_without_logins(module: AnsibleModule) -> None:
    """Lets messages name the addresses, of options with no_log, that have no password."""
    module.no_log_values = {value for value in module.no_log_values if "@" in value}
