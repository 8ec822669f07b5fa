"""Code that the servers of this package share: the socket, and errors as one line of JSON."""

from __future__ import annotations

import socket
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from maggnn.errors import InputError


def add_errors(app: FastAPI) -> None:
    """Make all errors of an application one line of JSON."""
    for kind in (InputError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, as_one_line)
    app.add_exception_handler(Exception, _as_own_error)


def _as_own_error(request: Request, error: Exception) -> Response:
    """Return the response to a request that met a bug or a failure of this machine; the server prints its trace."""
    return JSONResponse({"error": f"the server failed ({type(error).__name__}): its log says more"}, 500)


def as_one_line(request: Request, error: Exception) -> Response:
    """Return the response to an invalid request: what is wrong with it, in one line."""
    if isinstance(error, RequestValidationError):
        return JSONResponse({"error": what_is_wrong(error.errors()[0])}, 422)
    if isinstance(error, HTTPException):  # an error of FastAPI: no such page, or a body that is not text
        return JSONResponse({"error": error.detail}, error.status_code)
    return JSONResponse({"error": str(error)}, 400)


def what_is_wrong(found: dict[str, Any]) -> str:
    """Return an error of pydantic as one line."""
    if found["type"] == "json_invalid":  # its location is a number, not the name of a field
        return f"the request is not JSON: {found['ctx']['error']}"
    where = ".".join(str(part) for part in found["loc"][1:]) or "the request"
    return f"{where}: {found['msg']}"


def address_of(host: str, listener: socket.socket) -> str:
    """Return the address to open in a browser."""
    at = f"[{host}]" if ":" in host else host
    return f"http://{at}:{listener.getsockname()[1]}/"


def listening(host: str, port: int) -> socket.socket:
    """Return a listening socket, so that an occupied port is reported before any model is loaded."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InputError(f"--host {host}: cannot listen there ({error.strerror})") from error
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen()  # before it listens, another process could still take the port
    except OSError as error:
        listener.close()
        raise InputError(f"{host}:{port}: cannot listen there ({error.strerror}); choose another --port") from error
    return listener
