"""Folders between transformers and isthmus, both ways, by the program itself; logits must agree.

  python check_transformers.py build/isthmus      needs torch, transformers, safetensors; CI has none of them

1. transformers writes each fixture's model (fp32, bf16, fp16, and fp32 in shards); `isthmus eval --logits` reads it.
2. `isthmus train` trains each model shape three steps and writes its folder; transformers reads it.
Prints one line a model; the exit code is 1 if any is off by more than 1e-5 of the largest logit.
"""
import json, os, subprocess, sys, tempfile, warnings
import torch
from transformers import AutoModelForCausalLM
from make_golden import MODELS, batch, build

TOLERANCE = 1e-5
TRAIN = ["train.steps=3", "train.batch=2", "train.sequence=16", "train.eval_every=0", "train.eval_windows=2",
         "train.threads=1", "optim.warmup_steps=0", "optim.lr=1e-2"]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0: raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def ours(program, folder, tokens):
    text = run(program, "eval", folder, "--logits", ",".join(map(str, tokens.tolist())), "--dtype", "fp32")
    return torch.tensor(json.loads(text)["logits"])


@torch.no_grad()
def theirs(folder, tokens):
    model, report = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                         output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"], report
    return model.eval()(tokens[None]).logits[0]


def compare(what, a, b):
    off = ((a - b).abs().max() / b.abs().max()).item()
    print(f"{what:45} {off:.1e} of the largest logit{'' if off <= TOLERANCE else '   FAILED'}", flush=True)
    return off <= TOLERANCE


def they_write(program, work, name, config):
    tokens = batch(config.vocab_size, 5)[0][0]
    good = True
    for kind, dtype, shards in (("fp32", torch.float32, None), ("bf16", torch.bfloat16, None),
                                ("fp16", torch.float16, None), ("fp32 in shards", torch.float32, "20KB")):
        folder = os.path.join(work, f"{name}-{kind.replace(' ', '-')}")
        build(config, 3).to(dtype).save_pretrained(folder, **(dict(max_shard_size=shards) if shards else {}))
        if shards: assert os.path.exists(os.path.join(folder, "model.safetensors.index.json"))
        good &= compare(f"{name}: transformers writes {kind}", ours(program, folder, tokens), theirs(folder, tokens))
    return good


def our_shapes():
    shape = ["family='llama'", "vocab=256", "d_model=40", "num_layers=2", "num_heads=4", "ffn_dim=52", "context=64"]
    yield "gpt2", ["family='gpt2'"] + shape[1:]
    yield "llama", shape + ["num_kv_heads=2", "rope_theta=500.0"]
    yield "llama tied, head_dim 16", shape + ["tied_head=true", "head_dim=16"]
    yield "llama3 scaling", shape + ["rope_scaling='llama3'", "rope_factor=8.0", "rope_theta=100.0",
                                     "rope_original_context=32"]
    yield "linear scaling", shape + ["rope_scaling='linear'", "rope_factor=4.0"]
    yield "qwen2", shape + ["qkv_bias=true", "num_kv_heads=1"]
    yield "qwen2 with a window", shape + ["qkv_bias=true", "sliding_window=5"]
    yield "qwen3", shape + ["qk_norm=true", "head_dim=12", "num_kv_heads=2"]
    yield "qwen3 with a window", shape + ["qk_norm=true", "sliding_window=5"]
    yield "mistral", shape + ["sliding_window=7", "num_kv_heads=2"]


def we_write(program, work):
    text = os.path.join(work, "text.txt")
    with open(text, "w") as f: f.writelines(f"line {i} of a text that repeats itself\n" for i in range(400))
    data = os.path.join(work, "data")
    run(program, "data", "prepare", text, "--out", data)
    good = True
    for index, (name, keys) in enumerate(our_shapes()):
        folder, toml = os.path.join(work, f"run{index}"), os.path.join(work, f"run{index}.toml")
        with open(toml, "w") as f: f.write(f"data = '{data}'\n[model]\npreset = 'custom'\n" + "\n".join(keys) + "\n")
        run(program, "train", toml, "--run", folder, "--set", *TRAIN)
        model = os.path.join(folder, "model")
        tokens = torch.randint(0, 256, (24,), generator=torch.Generator().manual_seed(index))
        good &= compare(f"{name}: isthmus writes", theirs(model, tokens), ours(program, model, tokens))
    return good


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as work:
        good = [they_write(program, work, name, config()) for name, config in MODELS.items()]
        good.append(we_write(program, work))
    sys.exit(0 if all(good) else 1)
