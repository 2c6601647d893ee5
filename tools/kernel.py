"""Runs a notebook's cells in a kernel of this very Python, one cell at a time."""

import os
import tempfile
from contextlib import contextmanager

import nbformat
from ipykernel.kernelspec import RESOURCES, get_kernel_dict
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

CELL_SECONDS = 120
START_SECONDS = 120

# Two BLAS threads on a busy machine with two cores are many times slower than one,
# and more threads can change the last digits of a sum.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


class _ThisPython(KernelSpecManager):
    """Gives this interpreter's kernel, whatever a user's folders call python3."""

    def get_kernel_spec(self, kernel_name):
        return KernelSpec(resource_dir=RESOURCES, **get_kernel_dict())


@contextmanager
def running(notebook, folder, env=None):
    """A client whose `execute_cell(cell, index)` runs cells of `notebook` in `folder`."""
    manager = AsyncKernelManager(kernel_spec_manager=_ThisPython())
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=CELL_SECONDS,
        startup_timeout=START_SECONDS,
        record_timing=False,
        # By default what a busy machine says late is dropped without a word.
        iopub_timeout=CELL_SECONDS,
        raise_on_iopub_timeout=True,
        # Its warnings are about the connection, which stays on this machine.
        extra_arguments=["--log-level=ERROR"],
    )
    # A user's own IPython start-up files could hide what a lesson forgets to import; and what a lesson
    # tries is not to stand in the user's record of exercises. What it leaves goes with the folder.
    with tempfile.TemporaryDirectory() as folder_for_this_run:
        own = dict.fromkeys(("IPYTHONDIR", "ATTNLIB_DATA", "TMPDIR"), folder_for_this_run)
        env = {**os.environ, **ONE_THREAD, **own, **(env or {})}
        # nbclient leaves a kernel running whose manager it was given, unless told.
        with client.setup_kernel(cwd=str(folder), env=env, cleanup_kc=True):
            yield client


def run_source(client, source):
    """Run code that is in no notebook, and give the code cell with its outputs."""
    cell = nbformat.v4.new_code_cell(source)
    client.nb.cells.append(cell)
    return client.execute_cell(cell, len(client.nb.cells) - 1)
