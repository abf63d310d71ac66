"""Run by alembic for each migration. Airflow's db-manager sets the address of the database."""

from alembic import context
from sqlalchemy import create_engine

from airflow_provider_connect.runtime.sql_mirror.tables import metadata

VERSION_TABLE = "alembic_version_connect"


def _include_object(thing: object, name: str | None, kind: str, reflected: bool, compare_to: object) -> bool:
    """Compare only our tables, because the database is Airflow's."""
    return kind != "table" or name in metadata.tables


def run() -> None:
    url = context.config.get_main_option("sqlalchemy.url")
    if url is None:
        raise RuntimeError("sqlalchemy.url is not set: migrate with `airflow db migrate`")
    if context.is_offline_mode():
        context.configure(
            url=url, target_metadata=metadata, literal_binds=True, version_table=VERSION_TABLE, include_object=_include_object
        )
        with context.begin_transaction():
            context.run_migrations()
        return
    with create_engine(url).connect() as connection:
        context.configure(
            connection=connection,
            target_metadata=metadata,
            version_table=VERSION_TABLE,
            include_object=_include_object,
            render_as_batch=connection.dialect.name == "sqlite",
        )
        with context.begin_transaction():
            context.run_migrations()


run()
