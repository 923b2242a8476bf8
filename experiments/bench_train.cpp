// make bench-train: training speed here and in PyTorch, in turn in one run, with the share of the
// machine's own GEMM rate. Prints a table for people on stderr and one line of JSON a cell on
// stdout.
//
// Each side of a cell is its own process, so that the resident peak is that cell's alone. PyTorch
// takes part when TORCH_PYTHON names an interpreter that has it; its best of eager and compiled
// counts.
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"
#include "inner/cpu/cpu_ops.hpp"
#include "inner/cpu/onednn.hpp"
#include "inner/engine.hpp"
#include "inner/trainer.hpp"

namespace {

using isthmus::Fatal;
using nlohmann::json;
namespace inner = isthmus::inner;

struct Cell {
    std::string model, dtype = "fp32";
    std::int64_t threads = 1, batch = 16, context = 0;
    double seconds = 4;
};

/// Random tokens, as the peer's.
class RandomTokens final : public inner::TokenFile {
  public:
    explicit RandomTokens(std::uint64_t vocab) {
        info_.vocab = vocab;
        info_.tokens = info_.train_tokens = std::uint64_t{1} << 24;
    }
    const inner::TokenFileInfo& info() const override { return info_; }
    std::uint64_t split_tokens(inner::Split) const override { return info_.tokens; }
    isthmus::Status read(inner::Split, std::uint64_t first, std::span<std::int32_t> out) override {
        for (std::size_t i = 0; i < out.size(); ++i)
            out[i] = static_cast<std::int32_t>(isthmus::random_bits(1, first + i) % info_.vocab);
        return isthmus::Done{};
    }
    isthmus::Status read_documents(std::uint64_t, std::span<std::uint64_t>) override {
        return isthmus::Error{"random tokens have no documents"};
    }
    isthmus::Status verify(const std::function<void(std::uint64_t, std::uint64_t)>&,
                           const std::function<bool()>&) override {
        return isthmus::Done{};
    }

  private:
    inner::TokenFileInfo info_;
};

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

/// FLOP/s of oneDNN's matrix product, 1024 cubed, the best of half a second: the physical limit
/// that the table's GEMM share refers to, whichever GEMM trains.
double onednn_rate(inner::DType dtype, std::int64_t threads) {
    constexpr std::int64_t kSide = 1024;
    inner::cpu::OneDnn onednn(static_cast<int>(threads));
    inner::cpu::Matmul shape;
    shape.m = shape.n = shape.k = shape.a_stride = shape.b_stride = shape.c_stride = kSide;
    shape.operands = dtype;
    const std::vector<float> a(kSide * kSide, 1.0f), b(kSide * kSide, 1.0f);
    std::vector<float> c(kSide * kSide);
    onednn.run(shape, a.data(), b.data(), nullptr, c.data());
    double best = 1e30;
    const double start = now();
    do {
        const double before = now();
        onednn.run(shape, a.data(), b.data(), nullptr, c.data());
        best = std::min(best, now() - before);
    } while (now() - start < 0.5);
    return 2.0 * kSide * kSide * kSide / best;
}

/// Our side of one cell, in this process.
json measure(const Cell& cell) {
    inner::ModelConfig model;
    model.preset = cell.model;
    if (cell.model == "gpt2") model.vocab = 50304;  // as the peer pads it
    model.resolve();
    inner::TrainConfig train;
    train.batch = cell.batch;
    train.sequence = cell.context;
    train.threads = cell.threads;
    train.dtype = cell.dtype;
    train.steps = 1'000'000;
    inner::OptimConfig optim;
    optim.lr = 1e-3;
    RandomTokens data(static_cast<std::uint64_t>(std::min<std::int64_t>(model.vocab, 50257)));
    const auto trainer = inner::Trainer::create(model, train, optim, data);
    double loss = 0, total = 0;
    for (int i = 0; i < 2; ++i) trainer->step();
    std::vector<double> times;
    while (times.size() < 3 || total < cell.seconds) {
        const double start = now();
        loss = trainer->step().loss;
        times.push_back(now() - start);
        total += times.back();
    }
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                     times.end());
    const double step = times[times.size() / 2];
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const double tokens = static_cast<double>(cell.batch * cell.context);
    const double rate = onednn_rate(inner::compute_type(train), cell.threads);
    return {{"tokens_per_s", tokens / step},
            {"loss", loss},
            {"peak_bytes", usage.ru_maxrss * 1024},
            {"gemm_share", trainer->gemm_flop_per_step() / step / rate},
            {"gemm_gflop_s", rate / 1e9}};
}

/// The last line that a command prints, as JSON; null when it fails.
json output_of(const std::string& command) {
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return nullptr;
    std::string text, last;
    char buffer[4096];
    while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) text += buffer;
    if (pclose(pipe) != 0) return nullptr;
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return json::parse(text.substr(text.rfind('\n') + 1), nullptr, false);
}

std::string arguments(const Cell& cell) {
    return fmt::format(" --model {} --dtype {} --threads {} --batch {} --context {} --seconds {}",
                       cell.model, cell.dtype, cell.threads, cell.batch, cell.context,
                       cell.seconds);
}

/// PyTorch's better of eager and compiled; `variant` remembers which, for the repetitions.
json peer(const Cell& cell, const std::string& python, const std::string& script,
          std::optional<std::string>& variant) {
    json best = nullptr;
    std::string winner;
    for (const std::string extra : {"", " --compile"}) {
        if (variant && *variant != extra) continue;
        // Minutes of compilation, and no gain on record.
        if (cell.model == "gpt2" && !extra.empty()) continue;
        const json one =
            output_of(python + " " + script + arguments(cell) + extra + " 2>/dev/null");
        if (one.is_object() && (best.is_null() || one["tokens_per_s"] > best["tokens_per_s"])) {
            best = one;
            winner = extra;
        }
    }
    if (!best.is_null()) variant = winner;
    return best;
}

/// The median of one field over the repetitions, null when no repetition has it.
json median_of(const std::vector<json>& rows, const char* field) {
    std::vector<double> values;
    for (const json& row : rows)
        if (row.is_object() && row[field].is_number()) values.push_back(row[field]);
    if (values.empty()) return nullptr;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

std::string or_dash(const json& value, const char* format, double scale = 1) {
    return value.is_number() ? fmt::format(fmt::runtime(format), value.get<double>() * scale) : "-";
}

/// Ours, the peer's, ours, the peer's, ...: a shared machine's speed drifts, and the ratio is the
/// median of the pairs' ratios.
void run_cell(const Cell& cell, int repeats, const std::string& self, const std::string& python,
              const std::string& script) {
    std::vector<json> ours, theirs, pairs;
    std::optional<std::string> variant;
    for (int i = 0; i < repeats; ++i) {
        ours.push_back(output_of(self + " --cell" + arguments(cell)));
        if (!ours.back().is_object())
            throw isthmus::fatal(isthmus::ExitCode::kInternal, "bench_train: the cell{} failed",
                                 arguments(cell));
        if (python.empty()) continue;
        theirs.push_back(peer(cell, python, script, variant));
        if (theirs.back().is_object())
            pairs.push_back({{"ratio", ours.back()["tokens_per_s"].get<double>() /
                                           theirs.back()["tokens_per_s"].get<double>()}});
    }
    json row = {{"model", cell.model}, {"dtype", cell.dtype},     {"threads", cell.threads},
                {"batch", cell.batch}, {"context", cell.context}, {"repeats", repeats}};
    for (const char* field : {"tokens_per_s", "gemm_share", "gemm_gflop_s", "peak_bytes"})
        row[field] = median_of(ours, field);
    row["peer_tokens_per_s"] = median_of(theirs, "tokens_per_s");
    row["peer_peak_bytes"] = median_of(theirs, "peak_bytes");
    row["ratio"] = median_of(pairs, "ratio");
    if (variant) row["peer_compiled"] = !variant->empty();
    std::fputs(
        fmt::format("{:6} {:5} {:7} {:6} {:8} {:>10} {:>10} {:>6} {:>6} {:>9} {:>9}\n", cell.model,
                    cell.dtype, cell.threads, cell.batch, cell.context,
                    or_dash(row["tokens_per_s"], "{:.0f}"),
                    or_dash(row["peer_tokens_per_s"], "{:.0f}"), or_dash(row["ratio"], "{:.2f}"),
                    or_dash(row["gemm_share"], "{:.0f}%", 100),
                    or_dash(row["peak_bytes"], "{:.0f}", 1e-6),
                    or_dash(row["peer_peak_bytes"], "{:.0f}", 1e-6))
            .c_str(),
        stderr);
    std::puts(row.dump().c_str());
    std::fflush(stdout);
}

int run(int argc, char** argv) {
    Cell cell;
    bool single = false;
    int repeats = 3;
    std::string script = "experiments/peer_torch.py", models = "tiny,small,gpt2";
    CLI::App app("Training speed against PyTorch (TORCH_PYTHON=...) and the machine's GEMM rate");
    app.add_flag("--cell", single, "measure our side of one cell in this process and print it");
    app.add_option("--model", cell.model, "tiny, small, gpt2");
    app.add_option("--dtype", cell.dtype, "fp32, bf16");
    app.add_option("--threads", cell.threads, "threads");
    app.add_option("--batch", cell.batch, "sequences a step");
    app.add_option("--context", cell.context, "tokens a sequence");
    app.add_option("--seconds", cell.seconds, "seconds to measure a cell for")
        ->capture_default_str();
    app.add_option("--repeats", repeats, "pairs of a cell")
        ->capture_default_str()
        ->check(CLI::Range(1, 99));
    app.add_option("--models", models, "which models, comma-separated")->capture_default_str();
    app.add_option("--peer", script, "the PyTorch side")->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    if (single) {
        std::puts(measure(cell).dump().c_str());
        return 0;
    }
    const char* python = std::getenv("TORCH_PYTHON");
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    std::fputs(
        "model  dtype threads  batch  context   tokens/s    PyTorch  ratio   GEMM   peak MB   peer "
        "MB\n",
        stderr);
    for (const std::string dtype : {"fp32", "bf16"}) {
        if (dtype == "bf16" && !inner::cpu_has_bf16()) {
            std::fputs("bf16: not measured, this processor has no AVX-512 bf16 or AMX\n", stderr);
            continue;
        }
        for (const Cell& one : {Cell{"tiny", dtype, 1, 16, 128, cell.seconds},
                                Cell{"small", dtype, 1, 16, 256, cell.seconds},
                                Cell{"gpt2", dtype, 2, 4, 64, cell.seconds}})
            if (("," + models + ",").find("," + one.model + ",") != std::string::npos)
                run_cell(one, repeats, self, python == nullptr ? "" : python, script);
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const Fatal& error) {
        std::fprintf(stderr, "bench_train: %s\n", error.what());
        return static_cast<int>(error.code());
    }
}
