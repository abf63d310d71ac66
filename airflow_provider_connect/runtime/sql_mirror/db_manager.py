"""Creates and upgrades this package's tables. Called by ``airflow db migrate``."""

from pathlib import Path

from airflow.utils.db_manager import BaseDBManager

from airflow_provider_connect.runtime.sql_mirror.tables import metadata

_DIRECTORY = Path(__file__).parent


class ConnectDBManager(BaseDBManager):  # type: ignore[misc]  # Airflow is not typed for us
    """Found by Airflow through the provider's ``db-managers``."""

    metadata = metadata
    version_table_name = "alembic_version_connect"
    migration_dir = str(_DIRECTORY / "migrations")
    alembic_file = str(_DIRECTORY / "alembic.ini")
    supports_table_dropping = True
    revision_heads_map = {"0.1.0": "0007_failed"}  # noqa: RUF012  (Airflow reads it from the class)

    def downgrade(self, to_revision: str, from_revision: str | None = None, show_sql_only: bool = False) -> None:
        """Go back to ``to_revision``."""
        from alembic import command  # Airflow loads this module in processes that never migrate

        if show_sql_only and not from_revision:
            from_revision = self.get_current_revision()
        revision = f"{from_revision}:{to_revision}" if show_sql_only else to_revision
        command.downgrade(self.get_alembic_config(), revision=revision, sql=show_sql_only)
