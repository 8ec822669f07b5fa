"""`maggnn serve`: a process that predicts for molecules over HTTP.

    POST /predict    JSON {"smiles": [...]} or an Arrow stream; returns the columns of `maggnn predict` in that format
    GET  /health     200 when the model is ready, 503 while the server is shutting down
    GET  /model      a description of the model
    GET  /metrics    metrics for Prometheus

SIGTERM and Ctrl-C end the server after all accepted requests are completed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from maggnn.apps.fit.answers.columns import answer_names, answer_types
from maggnn.apps.fit.fitted import FittedModel
from maggnn.apps.fit.predicting import load_for_smiles
from maggnn.apps.serve.batching import Batcher, FullError
from maggnn.apps.serve.messages import ARROW, JSON, read_request, write_answer
from maggnn.apps.serve.metrics import Metrics
from maggnn.apps.show.guard import Guard
from maggnn.apps.show.web import add_errors, address_of, listening
from maggnn.errors import InputError

BYTES_A_ROW = 512
"""The largest mean number of bytes per row of a request: far more than the SMILES of a drug-like molecule needs."""

ENDS_WITHIN_S = 30
"""The seconds that a server waits at shutdown for clients to receive their responses."""


def make_app(
    fitted: FittedModel,
    host: str = "127.0.0.1",
    workers: int = 1,
    most_rows: int = 4096,
    most_atoms: int = 200,
    names: tuple[str, ...] = (),
) -> FastAPI:
    """Make the web application for a model.

    Args:
        host: the address that the server listens on.
        workers: the number of processes that parse SMILES.
        most_rows: the largest number of molecules of a request.
        most_atoms: the largest number of atoms of a molecule; larger ones get a reason instead of a prediction.
        names: additional host names that clients may use.
    """
    batcher = Batcher(fitted, workers, most_rows=max(2048, most_rows), most_atoms=most_atoms)
    metrics = Metrics(batcher.seen)

    @contextlib.asynccontextmanager
    async def answering(app: FastAPI) -> AsyncIterator[None]:
        async with batcher:
            app.state.ready = True
            yield
            app.state.ready = False

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=answering)
    app.state.ready = False
    most_body = max(1 << 20, BYTES_A_ROW * most_rows)
    app.add_middleware(Guard, host=host, most_body=most_body, kinds=(JSON, ARROW), names=names)  # pyright: ignore[reportArgumentType]
    add_errors(app)
    _add_answers(app, fitted, batcher, metrics, most_rows)
    _add_facts(app, fitted, metrics, {"rows": most_rows, "atoms": most_atoms, "bytes": most_body})
    return app


def _add_answers(app: FastAPI, fitted: FittedModel, batcher: Batcher, metrics: Metrics, most_rows: int) -> None:
    names, types, column = answer_names(fitted), answer_types(fitted), fitted.facts.smiles_column

    @app.post("/predict")
    async def predict(request: Request) -> Response:
        began, status = time.monotonic(), 200
        try:
            kind = request.headers["content-type"].partition(";")[0].strip().lower()
            smiles = read_request(await request.body(), kind, column, most_rows)
            columns = await batcher.answer(smiles)
            return Response(write_answer(names, types, columns, kind), media_type=kind)
        except InputError:
            status = 400
            raise
        except ClientDisconnect:
            status = 400
            return JSONResponse({"error": "the body of the request did not arrive in time"}, 400)
        except FullError:
            status = 503
            return JSONResponse({"error": "too many molecules are waiting: try again later"}, 503, {"retry-after": "1"})
        except Exception:
            status = 500
            raise
        finally:
            metrics.requests.labels(str(status)).inc()
            metrics.seconds.observe(time.monotonic() - began)


def _add_facts(app: FastAPI, fitted: FittedModel, metrics: Metrics, limits: dict[str, int]) -> None:
    @app.get("/health")
    async def health() -> Response:
        ready = app.state.ready
        return JSONResponse({"status": "ready" if ready else "ending"}, 200 if ready else 503)

    @app.get("/model")
    async def model() -> Response:
        facts: dict[str, Any] = {
            "task": fitted.facts.task,
            "targets": fitted.facts.targets,
            "classes": fitted.facts.classes,
            "columns": answer_names(fitted),
            "limits": limits,
        }
        return JSONResponse(facts)

    @app.get("/metrics")
    async def numbers() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def serve(
    model: Path, host: str, port: int, workers: int, most_rows: int, most_atoms: int, names: tuple[str, ...] = ()
) -> None:
    """Serve until interrupted."""
    with listening(host, port) as listener:
        app = make_app(load_for_smiles(model), host, workers, most_rows, most_atoms, names)
        print(f"{address_of(host, listener)} serves {model}; Ctrl-C ends it", flush=True)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=ENDS_WITHIN_S)
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])
