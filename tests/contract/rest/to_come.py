"""Steps that are not equal yet, and why. ``make contract`` and the tests pass them over."""

from collections.abc import Iterable, Mapping

from tests.contract.rest.replay import Outcome

_AIRFLOW_SERVER = "Airflow's web server refuses methods that HTTP does not know before an app sees them (the server of our own does not)"

TO_COME: Mapping[tuple[str, str], str] = {}
IN_AIRFLOW_ONLY: Mapping[tuple[str, str], str] = {("wrong-methods", "unknown verb"): _AIRFLOW_SERVER}


def unexpected(outcomes: Iterable[Outcome], *known: Mapping[tuple[str, str], str]) -> list[str]:
    """Those that are unequal, and in none of ``known``."""
    return [str(one) for one in outcomes if not one.is_equal and not any((one.scenario, one.step) in some for some in known)]
