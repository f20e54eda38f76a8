"""Who is let in: only requests to this address, with its token, made by the desk's own page."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADERS", "REPORT_POLICY", "Guard"]

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
# A report brings its own policy; in a sandbox it has no part in the desk either.
REPORT_POLICY: Final = "sandbox allow-scripts; frame-ancestors 'none'"
HEADERS: Final[Mapping[str, str]] = {
    "cache-control": "no-store",
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
REFUSALS: Final[Mapping[int, str]] = {
    400: "This is no request that the desk understands.",
    403: "Refused. Open the address that `tensorveil desk` has printed, with its token.",
    405: "Refused: the desk does not answer this method.",
}


@dataclass(frozen=True)
class Guard:
    """Around the desk's pages: refuses whoever comes by another name, without the token, or from another page.

    Parameters
    ----------
    app
        What answers those who are let in; it sees paths without the token.
    token
        The secret first part of every path.
    hosts
        By which names the desk may be called, with its port: a page elsewhere whose name was made to mean this machine
        (DNS rebinding) still calls it by the page's name.
    """

    app: ASGIApp
    token: str
    hosts: frozenset[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] != "http":
            return  # no sockets here; servers take silence for a refusal
        status, rest = self._judge(scope)
        if status:
            await _refuse(status, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = message.setdefault("headers", [])
                names = {name.lower() for name, _ in given}
                given.extend(
                    (key.encode(), text.encode()) for key, text in HEADERS.items() if key.encode() not in names
                )
            await send(message)

        await self.app({**scope, "path": rest, "raw_path": rest.encode(), "root_path": ""}, receive, send_guarded)

    def _judge(self, scope: Scope) -> tuple[int, str]:
        """Return the status to refuse with, or 0 and the path behind the token."""
        found = _read_headers(scope)
        if found is None:
            return 400, ""
        host, (token, slash, rest) = found.get("host", ""), scope["path"].removeprefix("/").partition("/")
        if host not in self.hosts or not hmac.compare_digest(token.encode(), self.token.encode()) or not slash:
            return 403, ""
        if scope["method"] not in ("GET", "POST"):
            return 405, ""
        origin, site = found.get("origin"), found.get("sec-fetch-site")
        typed = scope["method"] == "GET" and not rest  # an address may be typed, or opened from a bookmark or a file
        if origin is not None and origin != f"http://{host}":
            return 403, ""
        if site is not None and site not in ("same-origin", "none"):
            return (0, "/") if typed and found.get("sec-fetch-mode") == "navigate" else (403, "")
        if scope["method"] == "POST" and origin is None:
            return 403, ""
        return 0, f"/{rest}"


def _read_headers(scope: Scope) -> dict[str, str] | None:
    """Return the headers that decide; None if one of them is there twice."""
    wanted = ("host", "origin", "sec-fetch-site", "sec-fetch-mode")
    pairs: list[tuple[str, str]] = [
        (name.decode("latin-1").lower(), text.decode("latin-1"))
        for name, text in scope["headers"]
        if name.decode("latin-1").lower() in wanted
    ]
    found = dict(pairs)
    return found if len(found) == len(pairs) else None


async def _refuse(status: int, send: Any) -> None:
    body = f"{REFUSALS[status]}\n".encode()
    headers = {**HEADERS, "content-type": "text/plain; charset=utf-8", "content-length": str(len(body))}
    pairs = [(name.encode(), text.encode()) for name, text in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
