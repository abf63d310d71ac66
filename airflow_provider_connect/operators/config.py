"""Operators that create, update and validate a connector's config, in any Connect cluster.

Secrets do not belong in a DAG file: write a variable that the cluster resolves, such as ``${airflow:shop:password}`` for ours or
``${file:/etc/secrets:password}`` for a Kafka Connect. Values whose keys are named like secrets are masked in logs and in rendered
templates.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.log import mask_secret

from airflow_provider_connect.client.conditions import Condition, ConnectorReaches
from airflow_provider_connect.errors import AlreadyExistsException, BadRequestException, NotFoundException
from airflow_provider_connect.operators.verb import ConnectVerbOperator
from airflow_provider_connect.runtime.config.dag_settings import literal_secrets
from airflow_provider_connect.runtime.model.secret_keys import HIDDEN
from airflow_provider_connect.runtime.model.states import State, TargetState

if TYPE_CHECKING:
    from airflow_provider_connect.hooks.connect import ConnectHook

_STATE_OF = {TargetState.STARTED: State.RUNNING, TargetState.PAUSED: State.PAUSED, TargetState.STOPPED: State.STOPPED}


class _ConfigOperator(ConnectVerbOperator):
    """An operator with a ``config``: a mapping of Connect's keys to text, numbers and booleans."""

    template_fields: ClassVar[Sequence[str]] = (*ConnectVerbOperator.template_fields, "config")
    template_fields_renderers: ClassVar[dict[str, str]] = {"config": "json"}

    def __init__(self, *, config: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config

    def render_template_fields(self, context: Any, jinja_env: Any = None) -> None:
        """Called by Airflow before it shows the rendered fields to a user."""
        super().render_template_fields(context, jinja_env)
        texts = {key: str(value) for key, value in self.config.items() if value is not None}
        for key in literal_secrets(texts):
            mask_secret(texts[key])


class CreateConnectorOperator(_ConfigOperator):
    """Creates the connector in the state ``initial_state``: STARTED, PAUSED or STOPPED. Returns whether it was created.

    If a connector with the same config exists, the operator does nothing, whatever the connector's state. If the configs differ,
    ``if_exists`` decides: ``"fail"`` fails the task, ``"keep"`` keeps the existing config, ``"update"`` replaces it. The operator waits
    only if it has created the connector.
    """

    def __init__(
        self,
        *,
        if_exists: Literal["fail", "keep", "update"] = "fail",
        initial_state: TargetState | str = TargetState.STARTED,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if if_exists not in ("fail", "keep", "update"):
            raise ValueError(f"if_exists must be 'fail', 'keep' or 'update', not {if_exists!r}")
        self.if_exists, self.initial_state = if_exists, TargetState(initial_state).value

    def act(self, hook: "ConnectHook") -> bool:
        config = config_texts(self.config)
        known = _config_of(hook, self.connector)
        if known is None:
            initial = None if self.initial_state == TargetState.STARTED else TargetState(self.initial_state)
            hook.create_connector(self.connector, config, initial)
            return True
        if self.if_exists == "keep" or is_same(known, self.connector, config):
            self.log.info("Connector %s exists", self.connector)
        elif self.if_exists == "fail":
            changed = sorted(key for key in known.keys() | config.keys() if known.get(key) != config.get(key) and key != "name")
            raise AlreadyExistsException(
                f"Connector {self.connector} exists with another config ({', '.join(changed)}). Give if_exists='update' or 'keep'"
            )
        else:
            hook.put_connector_config(self.connector, config)
        return False

    def after(self, result: object) -> Condition | None:
        return ConnectorReaches(self.connector, [_STATE_OF[TargetState(self.initial_state)]]) if result else None


class UpdateConnectorOperator(_ConfigOperator):
    """Replaces the connector's config with ``config``, or creates the connector. Returns whether it sent a change.

    With ``merge``, only the keys in ``config`` change; None removes a key. If the connector already has this config, the operator changes
    nothing. It does not wait by default, because the connector may be paused.
    """

    def __init__(self, *, merge: bool = False, wait: bool = False, **kwargs: Any) -> None:
        super().__init__(wait=wait, **kwargs)
        self.merge = merge

    def act(self, hook: "ConnectHook") -> bool:
        known = _config_of(hook, self.connector)
        if self.merge:
            patch = {key: None if value is None else config_text(key, value) for key, value in self.config.items()}
            if known is not None and all(known.get(key) == value and value != HIDDEN for key, value in patch.items()):
                return False
            hook.patch_connector_config(self.connector, patch)
            return True
        config = config_texts(self.config)
        if known is not None and HIDDEN not in known.values() and is_same(known, self.connector, config):
            return False
        hook.put_connector_config(self.connector, config)
        return True

    def after(self, result: object) -> Condition | None:
        return ConnectorReaches(self.connector, [State.RUNNING]) if result else None


class ValidateConfigOperator(_ConfigOperator):
    """Validates ``config`` with the cluster's plugin. If it has errors, the task fails without a retry.

    The failure names each invalid key with its errors. Nothing is written. The connector of the name ``connector`` need not exist. The
    operator sends one request, so ``wait`` and ``deferrable`` have no effect.
    """

    def act(self, hook: "ConnectHook") -> None:
        config = {"name": self.connector, **config_texts(self.config)}
        if not config.get("connector.class"):
            raise BadRequestException(f"The config of {self.connector} names no connector.class")
        validation = hook.validate(config["connector.class"], config)
        wrong = [f"{value.name}: {'; '.join(value.errors)}" for _, value in validation.configs if value.errors]
        if wrong:
            raise AirflowFailException(f"The config of {self.connector} has {validation.error_count} errors. " + "\n".join(wrong))


def config_texts(config: Mapping[str, Any]) -> dict[str, str]:
    """``config`` with all values as text. Raises BadRequestException, which names the key, for any other value."""
    return {key: config_text(key, value) for key, value in config.items()}


def config_text(key: str, value: object) -> str:
    """One value as Connect writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise BadRequestException(f"Configuration {key} is {value!r}: give text, a number, or true or false")


def is_same(known: Mapping[str, str], connector: str, config: Mapping[str, str]) -> bool:
    """Whether a connector with the visible config ``known`` has ``config``. Hidden values cannot be compared."""
    wanted = {**config, "name": connector}
    return known.keys() == wanted.keys() and all(known[key] in (value, HIDDEN) for key, value in wanted.items())


def _config_of(hook: "ConnectHook", connector: str) -> dict[str, str] | None:
    try:
        return hook.connector_config(connector)
    except NotFoundException:
        return None
