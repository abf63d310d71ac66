"""Run by a Python that has FAB: makes the users of the rights tests. ``python fab_users.py CONNECTOR`` prints passwords as JSON.

``admin``, ``op``, ``user`` and ``viewer`` have FAB's own roles; ``owner``
may see Airflow and do everything with the DAG of CONNECTOR, and with no other.
"""

import json
import secrets
import sys

from airflow.providers.fab.auth_manager.security_manager.override import FabAirflowSecurityManagerOverride
from airflow.providers.fab.www.app import create_app

from airflow_provider_connect.runtime.model.ids import dag_id_for


def main() -> None:
    app = create_app(enable_plugins=False)
    with app.app_context():
        manager: FabAirflowSecurityManagerOverride = app.appbuilder.sm
        manager.sync_roles()
        role = manager.add_role("Owner")
        resource = f"DAG:{dag_id_for(sys.argv[1])}"
        for action, name in (
            ("can_read", "Website"),
            ("menu_access", "DAGs"),
            ("can_read", resource),
            ("can_edit", resource),
            ("can_delete", resource),
        ):
            manager.add_permission_to_role(role, manager.create_permission(action, name))
        passwords = {}
        for name, held in (("admin", "Admin"), ("op", "Op"), ("user", "User"), ("viewer", "Viewer"), ("owner", "Owner")):
            passwords[name] = secrets.token_urlsafe(9)
            manager.add_user(name, name, name, f"{name}@example.org", manager.find_role(held), password=passwords[name])
        print(json.dumps(passwords))


if __name__ == "__main__":
    main()
