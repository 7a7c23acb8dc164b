"""Clients that ask a coordinator, each as soon as it has its answer."""

import http.client
import json
import random
import threading
import time
import urllib.parse

WORDS = 2_000
PATIENCE_SECONDS = 180


class Answer:
    def __init__(self, place, began, ended, kind):
        self.place, self.began, self.ended, self.kind = place, began, ended, kind


class Load:
    """Clients in a namespace. `questions` are lists of parameters; client N uses the one at N modulo their number."""

    def __init__(self, space, address, port, clients, questions, seed):
        self.answers = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(at, space, address, port, questions[at % len(questions)], seed + at), daemon=True)
            for at in range(clients)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, place, space, address, port, question, seed):
        space.enter()
        words = random.Random(seed)
        connection = http.client.HTTPConnection(address, port, timeout=PATIENCE_SECONDS)
        while not self._over.is_set():
            began = time.monotonic()
            try:
                connection.request("POST", "/solr/docs/select", body=question(words),
                                   headers={"Content-Type": "application/x-www-form-urlencoded"})
                reply = connection.getresponse()
                kind = kind_of(reply.status, reply.read())
            except OSError as error:
                connection.close()
                kind = f"no answer: {type(error).__name__}"
                time.sleep(0.1)
            with self._lock:
                self.answers.append(Answer(place, began, time.monotonic(), kind))

    def wait(self, count, until):
        """Waits until there are as many answers, or until that time."""
        while time.monotonic() < until:
            with self._lock:
                if len(self.answers) >= count:
                    return
            time.sleep(0.05)

    def end(self):
        """Ends the clients, whose last answers still come. Returns all answers."""
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
        return self.answers


def kind_of(status, body):
    """`whole`, `partial`, or the code and the end of the message."""
    try:
        answer = json.loads(body)
    except ValueError:
        return f"HTTP {status}"
    if status != 200:
        message = answer.get("error", {}).get("msg") or answer.get("error", {}).get("trace", "")
        return f"HTTP {status}: {message[-160:]}"
    header = answer.get("responseHeader", {})
    if header.get("partialResults"):
        return "partial"
    return "whole"


def question(shards, rows, category=None, **more):
    """Three random words, as in the paper. Shards send whole documents in the first phase, so partial results are large."""

    def ask(words):
        text = " ".join(f"text:word{int(WORDS * words.random() ** 3)}" for _ in range(3))
        q = f"+cat:{category} {text}" if category else text
        return urllib.parse.urlencode(
            {"q": q, "fl": "id,score,text", "distrib.singlePass": "true", "rows": rows, "wt": "json", "shards": shards, **more})

    return ask


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")
