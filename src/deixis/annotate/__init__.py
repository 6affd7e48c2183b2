"""The annotation workbench: workers answer small questions about captioned photos, which give chains and boxes.

The paper's tasks are the transition table in `workflow`. Everything that people do is an event (`events`); the state of
a photo is derived from its events (`state`), and the open questions from its state (`queue`). A judgement is one
transaction (`judgements`) on SQLite or PostgreSQL (`store`). `quality` checks the workers,
`review` holds decisions, `help` the proposals of models, and `web` the server. `export` makes a data set again.

Programs work in a project with `Client`, and check messages of webhooks with `verify_webhook`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deixis.exports import lazy_exports

if TYPE_CHECKING:
    from deixis.annotate.client import Client as Client
    from deixis.annotate.client import RequestError as RequestError
    from deixis.annotate.webhooks import SignatureError as SignatureError
    from deixis.annotate.webhooks import verify_webhook as verify_webhook

__all__, __getattr__, __dir__ = lazy_exports(
    __name__, {"client": "Client RequestError", "webhooks": "SignatureError verify_webhook"}
)
