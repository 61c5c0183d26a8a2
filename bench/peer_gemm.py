"""GFLOP/s of PyTorch for the same products as bench_gemm.c, same lines."""
import sys
import time

import torch

m = int(sys.argv[1]) if len(sys.argv) > 1 else 2048
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
torch.set_grad_enabled(False)
print(f"# m n k dtype form GFLOP/s (torch {torch.__version__}, {torch.get_num_threads()} threads)")
for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
    for n, k in ((2304, 768), (768, 768), (3072, 768), (768, 3072), (50257, 768)):
        x, w, dy = (torch.randn(s, dtype=torch.float32).to(dtype) for s in ((m, k), (n, k), (m, n)))
        y, dx, dw = (torch.empty(s, dtype=dtype) for s in ((m, n), (m, k), (n, k)))
        for form, run in (("xW^T", lambda: torch.mm(x, w.t(), out=y)),
                          ("dyW", lambda: torch.mm(dy, w, out=dx)),
                          ("dy^Tx", lambda: torch.mm(dy.t(), x, out=dw))):
            best = 1e9
            for _ in range(2 if n > 10000 else rounds):
                start = time.perf_counter()
                run()
                best = min(best, time.perf_counter() - start)
            print(m, n, k, name, form, f"{2e-9 * m * n * k / best:.1f}", flush=True)
