"""Which settings hold secrets, told by their names, and what is shown in their place."""

import re

HIDDEN = "[hidden]"
"""What is shown in place of a secret."""

_NAME = re.compile(r"password|passwd|passphrase|secret|token|credential|private[._-]?key|api[._-]?key|jaas", re.IGNORECASE)


def is_secret_key(key: str) -> bool:
    """Whether a setting named ``key`` holds a secret; rather too often than too seldom."""
    return _NAME.search(key) is not None
