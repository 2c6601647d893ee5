"""Answers to one question that harm the process they run in, and what must be said of each.

Each is a source that defines `answer`, and perhaps does something at its top. Another question's right answer
stands beside it and must be graded.
"""

def _in_a_call(body, head=""):
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"{head}\ndef answer(x):\n{lines}\n    return x\n"


# By name: the source, and what the verdict's message or the reason must hold
IN_A_CALL = {
    "endless loop": (_in_a_call("while True: pass"), "did not end"),
    "endless loop that swallows all": (
        _in_a_call("while True:\n    try:\n        while True: pass\n    except BaseException: pass"),
        "did not end"),
    "sleeps": (_in_a_call("import time; time.sleep(1000)"), "did not end"),
    "takes 40 GB": (_in_a_call("import numpy as np; y = np.ones(5 * 2**30); y += 1"), "MemoryError"),
    "takes 40 GB bit by bit": (
        _in_a_call("keep = []\nwhile True: keep.append(bytearray(2**28))"), ("MemoryError", "did not end")),
    "sys.exit": (_in_a_call("import sys; sys.exit()"), "SystemExit"),
    "os._exit": (_in_a_call("import os; os._exit(0)"), "ended the process"),
    "kills itself": (_in_a_call("import os; os.kill(os.getpid(), 9)"), "ended the process"),
    "kills all": (_in_a_call("import os; os.kill(-1, 9)"), "ProcessLookupError"),
    "stops itself": (_in_a_call("import os; os.kill(os.getpid(), 19)"), "did not end"),
    "a fault in C": (_in_a_call("import ctypes; ctypes.string_at(0)"), "ended the process"),
    "recursion": (_in_a_call("return answer(x)"), "RecursionError"),
    "input": (_in_a_call("input('?')"), "EOFError"),
    "fork bomb": (_in_a_call("import os\nwhile True: os.fork()"),
                  ("did not end", "ended", "BlockingIOError")),
    "garbage to all descriptors": (
        _in_a_call("import os\nfor fd in range(3, 1024):\n    try: os.write(fd, b'x' * 1000)\n"
                   "    except OSError: pass"),
        "files that are not its own"),
    "closes all descriptors": (_in_a_call("import os; os.closerange(0, 1024)"), "ended the process"),
    "a huge frame": (
        _in_a_call("import os\nfor fd in range(200, 210):\n    try: os.write(fd, b'\\x00\\x40' * 4)\n"
                   "    except OSError: pass"), "files that are not its own"),
    "a socket": (_in_a_call("import socket; socket.create_connection(('1.1.1.1', 53), 1)"),
                 ("OSError", "TimeoutError")),
    "a program": (_in_a_call("import subprocess; subprocess.run(['/bin/cat', '/etc/shadow'], check=True)"),
                  "CalledProcessError"),
    "10 GB of a view": (_in_a_call("import numpy as np; return np.broadcast_to(0.0, (10**5, 10**5))"),
                        "yours has (100000, 100000)"),
    "134 MB of text": (_in_a_call("return 'x' * 2**27"), "of type str"),
    "a long list": (_in_a_call("return [0] * 10**7"), "a list of 10000000"),
    "a deep list": (_in_a_call("l = []\nfor _ in range(10**5): l = [l]\nreturn l"), "a list of 1"),
    "a list in itself": (_in_a_call("l = []\nl += [l, l]\nreturn l"), "a list of 2"),
    "a generator": (_in_a_call("return (i for i in x)"), "of type generator"),
    "objects": (_in_a_call("import numpy as np; return np.array([object()] * 3)"), "dtype object"),
    "records": (_in_a_call("import numpy as np; return np.zeros(3, [('a', '<f8')])"), "dtype [('a', '<f8')]"),
    "text in an array": (_in_a_call("import numpy as np; return np.array(['a'] * 3)"), "dtype <U1"),
    "complex": (_in_a_call("return x + 1j"), "dtype complex128"),
    "NaN": (_in_a_call("return x * float('nan')"), "nan"),
    "nothing": (_in_a_call("return None"), "returned None"),
    "equal to everything": (
        _in_a_call("return All()", "class All:\n    def __eq__(self, other): return True\n"
                   "    def __array__(self, *a, **k): raise SystemExit\n    shape = (3,)\n    dtype = float\n"
                   "    def __repr__(self): raise SystemExit\n"
                   "    def __reduce__(self): import os; os._exit(1)"),
        "of type All"),
    "an array that lies": (
        _in_a_call("import numpy as np; return np.zeros(7).view(Lying)",
                   "import numpy as np\nclass Lying(np.ndarray):\n    shape = property(lambda self: (3,))\n"
                   "    def __eq__(self, other): return np.ones(3, bool)"), "shape (3,)"),
    "an endless repr": (
        _in_a_call("return Odd()", "class Odd:\n    def __repr__(self):\n        while True: pass"),
        ("did not end", "of type Odd")),
    "30 MB on stdout": (_in_a_call("print('x' * 30_000_000)\nraise ValueError('done')"), "done"),
}  # fmt: skip

# At the top of the cell, beside a right answer
AT_THE_TOP = {
    "endless loop": "while True: pass",
    "endless loop that swallows all":
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "sys.exit": "import sys; sys.exit()",
    "os._exit": "import os; os._exit(0)",
    "kills itself": "import os; os.kill(os.getpid(), 9)",
    "kills its parent": "import os; os.kill(os.getppid(), 9); os.kill(1, 9)",
    "input": "input()",
    "garbage": "import os\nfor fd in range(3, 1024):\n    try: os.write(fd, b'x')\n    except OSError: pass",
    "closes all": "import os; os.closerange(0, 1024)",
    "a thread that ends the process": "import threading, os\nthreading.Timer(0.3, os._exit, [0]).start()",
    "threads that never end":
        "import threading\ndef spin():\n    while True: pass\n"
        "for _ in range(3): threading.Thread(target=spin, daemon=True).start()",
    "40 processes": "import subprocess\nfor _ in range(40): subprocess.Popen(['sleep', '1000'])",
    "patched builtins": "import builtins\nbuiltins.isinstance = lambda *a: True\nbuiltins.len = lambda x: 3",
    "patched json": "import json\njson.dumps = lambda *a, **k: '{}'\njson.loads = json.dumps",
    "patched worker":
        "import sys\nfor name, module in list(sys.modules.items()):\n    if name.startswith('attnlib'):\n"
        "        for key in list(vars(module)):\n            if callable(getattr(module, key)):\n"
        "                setattr(module, key, lambda *a, **k: True)",
    "patched NumPy":
        "import numpy as np\nnp.allclose = np.isclose = np.array_equal = lambda *a, **k: True\n"
        "np.savez = np.load = None",
    "no modules": "import sys\nsys.modules.clear()",
    "30 MB on stdout": "print('x' * 30_000_000)",
    "30 MB on descriptor 1": "import os\nfor _ in range(30): os.write(1, b'x' * 1_000_000)",
    "warns": "import sys, warnings\nwarnings.warn('w')\nprint('w', file=sys.stderr)",
    "a signal handler": "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)",
    "tracing": "import sys\nsys.settrace(lambda *a: 1 / 0)",
    "full disk": "try:\n    with open('/tmp/a', 'wb') as f:\n        while True: f.write(bytes(10**6))\n"
                 "except OSError: pass",
}  # fmt: skip
