"""PyTorch's side of `make bench-train`: the same models, batch and optimizer, one cell a call.

  peer_torch.py --model tiny|small|gpt2 --dtype fp32|bf16 --batch B --context T --threads N --seconds S [--compile]

Prints one line of JSON: tokens_per_s (median step), peak_bytes (resident), loss.
Shapes as in inner/model/config.cpp's presets; gpt2's vocabulary is padded to 50304, as PyTorch scripts do.
"""
import argparse, json, math, resource, time
import torch, torch.nn as nn, torch.nn.functional as F

SHAPES = {
    "tiny": dict(gpt2=False, vocab=256, d=128, layers=4, heads=4, ffn=352, context=128),
    "small": dict(gpt2=False, vocab=256, d=256, layers=6, heads=4, ffn=704, context=256),
    "gpt2": dict(gpt2=True, vocab=50304, d=768, layers=12, heads=12, ffn=3072, context=1024),
}


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight, self.d = nn.Parameter(torch.ones(d)), d

    def forward(self, x):
        return F.rms_norm(x, (self.d,), self.weight, 1e-5)


class Block(nn.Module):
    def __init__(self, s):
        super().__init__()
        d, f, self.gpt2, self.heads = s["d"], s["ffn"], s["gpt2"], s["heads"]
        norm = nn.LayerNorm if self.gpt2 else RMSNorm
        self.n1, self.n2 = norm(d), norm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d, bias=self.gpt2), nn.Linear(d, d, bias=self.gpt2)
        self.up = nn.Linear(d, f if self.gpt2 else 2 * f, bias=self.gpt2)
        self.down = nn.Linear(f, d, bias=self.gpt2)

    def forward(self, x, rope):
        B, T, d = x.shape
        q, k, v = (z.view(B, T, self.heads, -1).transpose(1, 2) for z in self.qkv(self.n1(x)).chunk(3, -1))
        if rope is not None:
            def rotate(z):
                a, b = z.chunk(2, -1)
                return torch.cat((a * rope[0] - b * rope[1], b * rope[0] + a * rope[1]), -1)
            q, k = rotate(q), rotate(k)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(B, T, d))
        u = self.up(self.n2(x))
        if self.gpt2:
            u = F.gelu(u, approximate="tanh")
        else:
            g, u = u.chunk(2, -1)
            u = F.silu(g) * u
        return x + self.down(u)


class Model(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s, d = s, s["d"]
        self.token = nn.Embedding(s["vocab"], d)
        self.position = nn.Embedding(s["context"], d) if s["gpt2"] else None
        self.blocks = nn.ModuleList(Block(s) for _ in range(s["layers"]))
        self.norm = nn.LayerNorm(d) if s["gpt2"] else RMSNorm(d)
        self.head = nn.Linear(d, s["vocab"], bias=False)
        if s["gpt2"]:
            self.head.weight = self.token.weight
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)
        half = d // s["heads"] // 2
        angle = torch.outer(torch.arange(s["context"]).float(), 10000.0 ** (-torch.arange(half).float() / half))
        self.register_buffer("cos", torch.cos(angle), persistent=False)
        self.register_buffer("sin", torch.sin(angle), persistent=False)

    def forward(self, x, y):
        T = x.shape[1]
        h, rope = self.token(x), (self.cos[:T], self.sin[:T])
        if self.position is not None:
            h, rope = h + self.position.weight[:T], None
        for block in self.blocks:
            h = block(h, rope)
        return F.cross_entropy(self.head(self.norm(h)).float().view(-1, self.s["vocab"]), y.reshape(-1))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--model", choices=SHAPES, required=True)
    p.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    for name in ("batch", "context", "threads"):
        p.add_argument("--" + name, type=int, required=True)
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--compile", action="store_true")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = Model(SHAPES[a.model])
    decay = [q for q in model.parameters() if q.dim() == 2]
    rest = [q for q in model.parameters() if q.dim() != 2]
    optimizer = torch.optim.AdamW([dict(params=decay, weight_decay=0.1), dict(params=rest, weight_decay=0.0)],
                                  lr=1e-3, betas=(0.9, 0.95), eps=1e-8, fused=True)
    run = torch.compile(model) if a.compile else model
    x = torch.randint(0, min(SHAPES[a.model]["vocab"], 50257), (a.batch, a.context))
    y = torch.roll(x, -1, 1)

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=a.dtype == "bf16"):
            loss = run(x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    step(), step()
    times = []
    while len(times) < 3 or sum(times) < a.seconds:
        start = time.perf_counter()
        loss = step()
        times.append(time.perf_counter() - start)
    print(json.dumps(dict(tokens_per_s=a.batch * a.context / sorted(times)[len(times) // 2], loss=loss,
                          peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)))


if __name__ == "__main__":
    main()
