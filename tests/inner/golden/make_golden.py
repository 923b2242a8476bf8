"""Makes the golden fixtures beside this file: small models with random weights, as PyTorch computes them.

  python make_golden.py            needs torch, transformers, safetensors; run it only when fixtures change

For each model NAME/ holds a Hugging Face folder (config.json, model.safetensors), golden.safetensors and
bf16.json. golden.safetensors: tokens and targets [B, T] as fp32 numbers, logits [B, T, V], losses [3] and
gradient norms [3] of three AdamW steps on the same batch, grad.NAME of the first step, after.NAME after
the third. bf16.json: how far PyTorch's own bf16 autocast is from its fp32, the worst over 16 batches: per
tensor the largest difference, and over all gradients the root of the summed mean squares, each relative to the
tensor's largest magnitude.
The sequences are what a trainer cuts from a stream of B T + 1 tokens: sequence b = stream[b T : b T + T + 1].
"""
import json, os, shutil, warnings
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import (AutoModelForCausalLM, GPT2Config, LlamaConfig, MistralConfig, Qwen2Config,
                          Qwen3Config)

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH, SEQUENCE, STEPS = 2, 20, 3
BF16_BATCHES = 16
ADAMW = dict(lr=1e-2, betas=(0.9, 0.95), eps=1e-4)  # eps: at 1e-8 rounding noise becomes full steps
DECAY, CLIP = 0.1, 1.0


def llama(config=LlamaConfig, **changes):
    shape = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                 num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32,
                 rms_norm_eps=1e-5, tie_word_embeddings=False, attention_dropout=0.0,
                 bos_token_id=None, eos_token_id=None, head_dim=8)
    shape.update(changes)
    if config is Qwen2Config: shape.pop("head_dim")
    return config(**shape)


# One fixture a switch; the odd sizes (67, 44, 5 heads) leave tails to every vectorised loop.
MODELS = {
    "gpt2": lambda: GPT2Config(vocab_size=67, n_embd=32, n_layer=2, n_head=4, n_inner=60, n_positions=24,
                               attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0, bos_token_id=None,
                               eos_token_id=None),
    "llama_gqa": lambda: llama(rope_parameters=dict(rope_type="default", rope_theta=500.0)),
    # Wave lengths 6.3, 20, 63 and 199 tokens: kept, blended, blended, stretched.
    "llama3_tied": lambda: llama(tie_word_embeddings=True, max_position_embeddings=128, rope_parameters=dict(
        rope_type="llama3", rope_theta=100.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=64)),
    "llama_linear": lambda: llama(vocab_size=67, hidden_size=40, intermediate_size=44, num_attention_heads=5,
                                  num_key_value_heads=1, rope_parameters=dict(
                                      rope_type="linear", rope_theta=10000.0, factor=4.0)),
    # Fast rotation: else a bias on k moves all scores of a query alike and its gradient is rounding noise.
    "qwen2": lambda: llama(Qwen2Config, num_key_value_heads=1,
                           rope_parameters=dict(rope_type="default", rope_theta=20.0)),
    "qwen3": lambda: llama(Qwen3Config, head_dim=12, tie_word_embeddings=True, intermediate_size=40,
                           rms_norm_eps=1e-6),
    "mistral": lambda: llama(MistralConfig, sliding_window=7),
}


@torch.no_grad()
def randomise(model, generator):
    """No weight at a value (0, 1) that would hide a mistake."""
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=generator)
        if p.dim() == 2: p.copy_(noise * 0.15)
        elif name.endswith("bias"): p.copy_(noise * 0.1)
        else: p.copy_(1 + 0.2 * noise)


def build(config, seed):
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    randomise(model, torch.Generator().manual_seed(seed))
    return model.eval()


def batch(vocab, seed):
    stream = torch.randint(0, vocab, (BATCH * SEQUENCE + 1,), generator=torch.Generator().manual_seed(seed))
    rows = torch.stack([stream[b * SEQUENCE:b * SEQUENCE + SEQUENCE + 1] for b in range(BATCH)])
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def train(model, tokens, targets, bf16=False):
    """Everything a fixture holds, by name."""
    decayed = [p for p in model.parameters() if p.dim() == 2]
    plain = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW([dict(params=decayed, weight_decay=DECAY),
                                   dict(params=plain, weight_decay=0.0)], **ADAMW)
    out, losses, norms = {}, [], []
    for step in range(STEPS):
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = model(tokens, use_cache=False).logits
        if logits.dtype == torch.bfloat16: logits = logits.float()
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            out["logits"] = logits.detach().clone()
            for name, p in model.named_parameters(): out["grad." + name] = p.grad.clone()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
        losses.append(loss.item())
        optimizer.step()
    out["losses"], out["norms"] = torch.tensor(losses), torch.tensor(norms)
    for name, p in model.named_parameters(): out["after." + name] = p.detach().clone()
    return out


def relative(a, b):
    return ((a.double() - b.double()).abs().max() / b.double().abs().max()).item()


def bf16_spread(config, seed):
    worst = {"gradients": 0.0}
    for b in range(BF16_BATCHES):
        data = batch(config.vocab_size, seed + 100 + b)
        fp32, bf16 = train(build(config, seed), *data), train(build(config, seed), *data, bf16=True)
        squares = 0.0
        for k in fp32:
            difference, magnitude = (bf16[k] - fp32[k]).abs(), fp32[k].abs().max()
            worst[k] = max(worst.get(k, 0.0), (difference.max() / magnitude).item())
            if k.startswith("grad."): squares += (difference.square().mean() / magnitude ** 2).item()
        worst["gradients"] = max(worst["gradients"], squares ** 0.5)
    return {k: float(f"{v:.3g}") for k, v in worst.items()}


def make(name, config, seed):
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    model = build(config, seed)
    model.save_pretrained(folder)
    for extra in os.listdir(folder):
        if extra not in ("config.json", "model.safetensors"): os.remove(os.path.join(folder, extra))
    tokens, targets = batch(config.vocab_size, seed + 100)
    golden = train(model, tokens, targets)
    exact = train(build(config, seed).double(), tokens, targets)
    # A fixture must be well conditioned: PyTorch itself far within the tolerance of 1e-5.
    worst = max((relative(golden[k], exact[k]), k) for k in golden)
    assert worst[0] < 4e-6, (name, worst)
    assert min(golden["norms"]) > CLIP, "clipping must be active"
    spread = bf16_spread(config, seed)
    golden.update(tokens=tokens.float(), targets=targets.float())
    save_file({k: v.float().contiguous() for k, v in golden.items()}, os.path.join(folder, "golden.safetensors"))
    with open(os.path.join(folder, "bf16.json"), "w") as f: json.dump(spread, f, indent=0, sort_keys=True)
    print(f"{name}: losses {[round(l, 4) for l in golden['losses'].tolist()]} norms "
          f"{[round(n, 2) for n in golden['norms'].tolist()]}, fp32 from fp64 at most {worst[0]:.1e} ({worst[1]})")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    for index, (name, config) in enumerate(MODELS.items()): make(name, config(), 7 + index)
