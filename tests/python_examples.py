"""The Python examples of a page of the documentation: sessions (``>>>``) are checked, programs are run.

``python tests/python_examples.py docs/gallery.md docs/images`` runs those of a page in a folder, where they
leave their pictures.
"""

import contextlib
import doctest
import re
import sys
from pathlib import Path

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_examples(page: Path, folder: Path) -> int:
    """Runs the examples of a page in a folder, each program by itself, the sessions as one; how many there
    were. Raises what an example raises, and AssertionError where a session says otherwise."""
    import matplotlib

    matplotlib.use("Agg")
    blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
    session = "\n".join(block for block in blocks if block.startswith(">>>"))
    with contextlib.chdir(folder):
        for block in blocks:
            if not block.startswith(">>>"):
                exec(compile(block, str(page), "exec"), {"__name__": "__main__"})
        said: list[str] = []
        test = doctest.DocTestParser().get_doctest(session, {}, page.name, str(page), 0)
        failed = doctest.DocTestRunner(verbose=False).run(test, out=said.append).failed
    assert not failed, "".join(said)
    return len(blocks)


if __name__ == "__main__":
    run_examples(Path(sys.argv[1]), Path(sys.argv[2]))
