"""An NBD client of a few lines, for tests that decide themselves what is asked when.

It speaks the oldest way in (`NBD_OPT_EXPORT_NAME`) and simple replies, or structured replies to reads if a
test asks for them; several requests may be outstanding.
Source: the NBD protocol, "Newstyle negotiation", "Transmission phase" and "Structured reply".
"""

import socket
import struct
from pathlib import Path

READ, WRITE, DISCONNECT, FLUSH, TRIM, CACHE, WRITE_ZEROES = range(7)
FUA = 1
_GREETING, _OPTION, _EXPORT = struct.Struct(">QQH"), struct.Struct(">QLL"), struct.Struct(">QH")
_REQUEST, _REPLY = struct.Struct(">LHHQQL"), struct.Struct(">LLQ")
_OPTION_MAGIC, _REQUEST_MAGIC, _REPLY_MAGIC = 0x49484156454F5054, 0x25609513, 0x67446698
_ANSWER, _CHUNK, _CHUNK_MAGIC = struct.Struct(">QLLL"), struct.Struct(">LHHQL"), 0x668E33EF
_STRUCTURED, _ACK, _DONE, _OFFSET_DATA, _ERROR, _ERROR_OFFSET = 8, 1, 1, 1, 0x8001, 0x8002


class NbdError(Exception):
    """The server answered with an error: its number, and the first byte that failed if it was told."""

    def __init__(self, errno: int, offset: int | None = None) -> None:
        super().__init__(f"error {errno}")
        self.errno, self.offset = errno, offset


class NbdClient:
    """A connection in its transmission phase."""

    def __init__(self, path: Path, timeout_s: float = 60.0, structured: bool = False) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise
        magic, option, _ = _GREETING.unpack(self._take(_GREETING.size))
        assert (magic, option) == (0x4E42444D41474943, _OPTION_MAGIC)
        self._socket.sendall(struct.pack(">L", 3))
        if structured:
            self._socket.sendall(_OPTION.pack(_OPTION_MAGIC, _STRUCTURED, 0))
            _, option, kind, size = _ANSWER.unpack(self._take(_ANSWER.size))
            assert (option, kind, size) == (_STRUCTURED, _ACK, 0)
        self._socket.sendall(_OPTION.pack(_OPTION_MAGIC, 1, 0))
        self.size, self.flags = _EXPORT.unpack(self._take(_EXPORT.size))
        self._outstanding: dict[int, int] = {}
        self._next = 0

    def _take(self, count: int) -> bytes:
        parts = []
        while count:
            part = self._socket.recv(min(count, 1 << 20))
            if not part:
                raise ConnectionResetError("the server went")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def send(self, kind: int, offset: int = 0, size: int = 0, data: bytes = b"", flags: int = 0) -> int:
        """Asks; the number by which the answer is known."""
        cookie = self._next
        self._next += 1
        self._outstanding[cookie] = size if kind == READ else 0
        request = _REQUEST.pack(_REQUEST_MAGIC, flags, kind, cookie, offset, size or len(data))
        self._socket.sendall(request + data)
        return cookie

    def answer(self) -> tuple[int, int, bytes]:
        """The next answer: its number, its error, and what was read."""
        magic, error, cookie = _REPLY.unpack(self._take(_REPLY.size))
        assert magic == _REPLY_MAGIC, hex(magic)
        size = self._outstanding.pop(cookie)
        return cookie, error, self._take(size) if not error else b""

    def call(self, kind: int, offset: int = 0, size: int = 0, data: bytes = b"", flags: int = 0) -> bytes:
        """Asks and waits. Raises NbdError."""
        asked = self.send(kind, offset, size, data, flags)
        cookie, error, answer = self.answer()
        assert cookie == asked
        if error:
            raise NbdError(error)
        return answer

    def read(self, offset: int, size: int) -> bytes:
        """Reads."""
        return self.call(READ, offset, size)

    def read_structured(self, offset: int, size: int) -> bytes:
        """Reads where structured replies were agreed on. Raises NbdError, with the place if it was told."""
        asked, found, flags = self.send(READ, offset, size), bytearray(size), 0
        error: NbdError | None = None
        while not flags & _DONE:
            magic, flags, kind, cookie, length = _CHUNK.unpack(self._take(_CHUNK.size))
            assert (magic, cookie) == (_CHUNK_MAGIC, asked), hex(magic)
            payload = self._take(length)
            if kind == _OFFSET_DATA:
                at = int.from_bytes(payload[:8], "big") - offset
                found[at : at + length - 8] = payload[8:]
            else:
                assert kind in (_ERROR, _ERROR_OFFSET), hex(kind)
                number, said = struct.unpack_from(">LH", payload)
                rest = payload[6 + said :]
                assert len(rest) == (8 if kind == _ERROR_OFFSET else 0)
                error = NbdError(number, int.from_bytes(rest, "big") if rest else None)
        del self._outstanding[asked]
        if error:
            raise error
        return bytes(found)

    def write(self, offset: int, data: bytes, fua: bool = False) -> None:
        """Writes."""
        self.call(WRITE, offset, data=data, flags=FUA if fua else 0)

    def flush(self) -> None:
        """Makes durable what was answered."""
        self.call(FLUSH)

    def close(self) -> None:
        """Goes."""
        self._socket.close()
