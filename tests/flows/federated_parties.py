"""Parties of a federated run as processes, started by their commands; a hostile client; certificates for loopback."""

import datetime
import ipaddress
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tensorveil.federated.flower.processes import free_port
from tensorveil.tensor import ObservedTensor

SHAPE = (30, 6, 4)
COMMAND = [sys.executable, "-c", "from tensorveil.cli.main import main; main()"]
DECLARED = ["--private-shape", ",".join(map(str, SHAPE))]
PROMISE = ["--bounds", "1", "5", "--epsilon", "5", "--delta", "1e-5", "--sweeps", "0"]


def ratings(seed: int = 0, n: int = 300) -> Any:
    rng = np.random.default_rng(seed)
    columns = np.stack([rng.integers(0, size, n) for size in SHAPE])
    values = rng.integers(1, 6, n).astype(float)
    return ObservedTensor.from_columns(columns, values, shape=SHAPE, modes=("user", "film", "day"), duplicates="first")


def run(*words: Any) -> Any:
    done = subprocess.run([*COMMAND, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Parties:
    """A server and clients in a folder, who have agreed; to be started one by one."""

    def __init__(self, folder: Path, clients: int, *trust: Any, tls: Any = ()) -> None:
        self.folder, self.clients = folder, clients
        self.address = f"127.0.0.1:{free_port()}"
        self.tls = tls
        homes = [folder / "server", *(folder / f"client-{k}" for k in range(clients))]
        server, *keys = (json.loads(run("federate", "keys", home, "--json"))["public_key"] for home in homes)
        named = [word for key in keys for word in ("--client-key", key)]
        self.agreement = folder / "agreement.json"
        shape = ",".join(map(str, SHAPE))
        run(
            "federate", "agree", "--server-key", server, *named, "--shape", shape, "--modes", "user,film,day",
            *PROMISE, *trust, "-o", self.agreement,
        )  # fmt: skip
        data = ratings()
        for k in range(clients):
            data.take(data.columns[0] % clients == k).write(folder / f"client-{k}" / "data.npz")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *words: Any) -> None:
        self.popen(name, [*COMMAND, "federate", *map(str, words)])

    def popen(self, name: str, words: Any) -> None:
        with (self.folder / f"{name}.out").open("wb") as out:
            self.processes[name] = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
            )

    def start_server(self, *more: Any) -> None:
        files = [word for name in self.tls for word in (f"--{name}", self.folder / f"{name}.pem")]
        self.start(
            "server", "server", self.agreement, "--home", self.folder / "server", "--listen", self.address,
            "--output", self.folder / "release", *files, *more,
        )  # fmt: skip

    def start_client(self, k: Any, *more: Any) -> None:
        home = self.folder / f"client-{k}"
        files = ["--ca", self.folder / "ca.pem"] if self.tls else []
        self.start(
            f"client-{k}", "client", self.agreement, home / "data.npz", "--home", home, "--server", self.address,
            *files, *more,
        )  # fmt: skip

    def start_hostile(self, k: Any, *ledger: Any) -> None:
        home = self.folder / f"client-{k}"
        script = str(Path(__file__).with_name("hostile_client.py"))
        self.popen(f"client-{k}", [sys.executable, script, *map(str, (self.agreement, home, self.address, *ledger))])

    def log(self, name: str) -> Any:
        path = self.folder / name / "run.log"
        return path.read_text() if path.exists() else ""

    def wait_for(self, name: str, text: Any, patience: int = 180) -> None:
        deadline = time.monotonic() + patience
        while text not in self.log(name):
            assert time.monotonic() < deadline, f"{name} never said {text!r}: {self.said(name)}"
            assert self.processes[name].poll() is None, self.said(name)
            time.sleep(0.1)

    def said(self, name: str) -> Any:
        return (self.folder / f"{name}.out").read_text()

    def finish(self, name: str, patience: int = 300) -> Any:
        code = self.processes[name].wait(patience)
        return code, self.said(name)

    def end(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
                process.wait()


def write_certificates(folder: Path) -> None:
    """Make a certificate authority, and a certificate of the loopback address that it vouches for."""
    now = datetime.datetime.now(datetime.UTC)

    def named(text: Any) -> Any:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def certificate(subject: Any, issuer: Any, key: Any, signer: Any, *extensions: Any) -> Any:
        builder = x509.CertificateBuilder(
            issuer_name=named(issuer), subject_name=named(subject), public_key=key.public_key(),
            serial_number=x509.random_serial_number(), not_valid_before=now - datetime.timedelta(hours=1),
            not_valid_after=now + datetime.timedelta(days=1),
        )  # fmt: skip
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    root, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    identifier = x509.SubjectKeyIdentifier.from_public_key(root.public_key())
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(root.public_key())
    ca = certificate(
        "a trial", "a trial", root, root, (x509.BasicConstraints(ca=True, path_length=None), True), (usage, True),
        (identifier, False),
    )  # fmt: skip
    server = certificate("127.0.0.1", "a trial", own, root, (names, False), (authority, False))
    secret = own.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for name, content in (("ca", ca), ("certificate", server), ("key", secret)):
        (folder / f"{name}.pem").write_bytes(content)
