// `isthmus data prepare | import | info | ledger`.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "inner/data/prepare.hpp"
#include "launch/byte_progress.hpp"
#include "launch/command.hpp"
#include "launch/ledger_report.hpp"
#include "launch/progress.hpp"

namespace isthmus::launch {
namespace {

double seconds_now() {
    using namespace std::chrono;
    return duration<double>(steady_clock::now().time_since_epoch()).count();
}

std::unique_ptr<ByteProgress> progress_for(CommandContext& context, std::string what) {
    return std::make_unique<ByteProgress>(ByteProgress::Options{
        std::move(what), context.terminal,
        [&context](const std::string& line) { context.log.info("{}", line); },
        [](const std::string& line) { std::fprintf(stderr, "\r\033[K%s", line.c_str()); }});
}

std::function<void(std::uint64_t, std::uint64_t)> reporter(ByteProgress& progress) {
    return [&progress](std::uint64_t done, std::uint64_t total) {
        progress.update(done, total, seconds_now());
    };
}

std::string grouped(std::uint64_t value) {
    return with_commas(static_cast<std::int64_t>(value));
}

void print_info(const Path& path, const inner::TokenFileInfo& info) {
    const std::string text = fmt::format(
        "{}\n"
        "  tokenizer    {}, vocabulary {}, {} byte(s) a token\n"
        "  tokens       {}: {} train, {} validation\n"
        "  documents    {}\n"
        "  fingerprint  {}\n",
        path.string(), info.tokenizer, grouped(info.vocab), info.token_bytes, grouped(info.tokens),
        grouped(info.train_tokens), grouped(info.tokens - info.train_tokens),
        grouped(info.documents), hex(info.fingerprint));
    std::fputs(text.c_str(), stdout);
}

void run_prepare(CommandContext& context, inner::PrepareOptions options) {
    const auto progress = progress_for(context, "reading");
    options.progress = reporter(*progress);
    options.stop = context.stop;
    const auto info = inner::prepare(context.files, options);
    print_info(options.out / inner::kTokenFileName, info);
}

void run_import(CommandContext& context, inner::ImportOptions options, std::vector<Path> train) {
    options.train = train.front();
    options.more_train.assign(train.begin() + 1, train.end());
    const auto progress = progress_for(context, "importing");
    options.progress = reporter(*progress);
    options.stop = context.stop;
    const auto info = inner::import_tokens(context.files, options);
    print_info(options.out / inner::kTokenFileName, info);
}

void run_info(CommandContext& context, const Path& path, bool verify) {
    const auto file = inner::TokenFile::open(context.files, path);
    print_info(path, file->info());
    if (!verify) return;
    const auto progress = progress_for(context, "verifying");
    if (const Status status = file->verify(reporter(*progress), context.stop); !status)
        throw fatal(context.stop && context.stop() ? ExitCode::kInterrupted : ExitCode::kInput,
                    "{}", status.error().message);
    std::fputs("  verified     every checksum, id and document start is right\n", stdout);
}

void add_prepare(CLI::App& data, CommandContext& context) {
    auto* command = data.add_subcommand("prepare", "Text to a token file");
    auto options = std::make_shared<inner::PrepareOptions>();
    command
        ->add_option("input", options->inputs, "text, .gz or .dz, .zst, .jsonl, .jsonl.gz or .zst")
        ->required()
        ->type_name("FILE");
    command->add_option("--out", options->out, "folder for the token file; made if missing")
        ->required()
        ->type_name("DIR");
    command->add_option("--tokenizer", options->tokenizer, "byte: each byte is a token of 256")
        ->type_name("NAME")
        ->capture_default_str();
    command
        ->add_option("--validation", options->validation,
                     "share of the tokens held out, at the end; 0 for none")
        ->type_name("SHARE")
        ->capture_default_str();
    command->add_option("--field", options->field, "the text's field in each line of a .jsonl")
        ->type_name("NAME")
        ->capture_default_str();
    command->add_flag("--overwrite", options->overwrite, "replace a token file that is there");
    command->footer(
        "A file is a document, in a .jsonl each line. The cut before the validation part moves to "
        "a\n"
        "document boundary within 1 % of the tokens. The result appears when it is complete.");
    command->callback([options, &context] { run_prepare(context, *options); });
}

void add_import(CLI::App& data, CommandContext& context) {
    struct Options {
        inner::ImportOptions import;
        std::vector<Path> train;
        std::int64_t end_of_document = -1;
    };
    auto* command = data.add_subcommand("import", "Token files of llm.c or nanoGPT to ours");
    auto options = std::make_shared<Options>();
    command->add_option("train", options->train, ".bin files, one after the other")
        ->required()
        ->type_name("TRAIN.bin");
    command->add_option("--out", options->import.out, "folder for the token file; made if missing")
        ->required()
        ->type_name("DIR");
    command
        ->add_option("--validation", options->import.validation,
                     "validation tokens; none if not given")
        ->type_name("VAL.bin");
    command
        ->add_option("--format", options->import.format,
                     "auto tells llm.c by its header, and takes other files for nanoGPT's")
        ->check(CLI::IsMember({"auto", "llmc", "nanogpt"}))
        ->capture_default_str();
    command
        ->add_option("--vocab", options->import.vocab,
                     "ids are below it; 0: 50257 (gpt2, nanoGPT) or 128256 (llama3)")
        ->type_name("IDS")
        ->capture_default_str();
    command
        ->add_option("--end-of-document", options->end_of_document,
                     "id between documents; -1: 50256 (gpt2), 128000 (llama3), none for others")
        ->type_name("ID")
        ->check(CLI::Range(std::int64_t{-1}, std::int64_t{1} << 31))
        ->capture_default_str();
    command->add_flag("--overwrite", options->import.overwrite,
                      "replace a token file that is there");
    command->callback([options, &context] {
        if (options->end_of_document >= 0)
            options->import.end_of_document = static_cast<std::uint64_t>(options->end_of_document);
        run_import(context, options->import, options->train);
    });
}

void add_info(CLI::App& data, CommandContext& context) {
    struct Options {
        Path path;
        bool verify = false;
    };
    auto* command = data.add_subcommand("info", "What a token file holds");
    auto options = std::make_shared<Options>();
    command->add_option("path", options->path, "a token file or its folder")
        ->required()
        ->type_name("PATH");
    command->add_flag("--verify", options->verify, "read every byte and check it");
    command->callback([options, &context] { run_info(context, options->path, options->verify); });
}

void run_ledger(CommandContext& context, const Path& run, bool rounds, bool json) {
    const LedgerReport report = read_ledger(context.files, run);
    const std::string text = json ? ledger_json(report, rounds) : ledger_text(report, rounds);
    std::fputs(text.c_str(), stdout);
    if (!report.problem.empty())
        throw fatal(ExitCode::kInput, "{}: the ledger does not hold: {}", run.string(),
                    report.problem);
}

void add_ledger(CLI::App& data, CommandContext& context) {
    struct Options {
        Path run;
        bool rounds = false, json = false;
    };
    auto* command = data.add_subcommand("ledger", "Which samples a run has trained on, and proof");
    auto options = std::make_shared<Options>();
    command->add_option("run", options->run, "the run's folder, where its journal is")
        ->required()
        ->type_name("RUN");
    command->add_flag("--rounds", options->rounds, "each round's sites and their samples");
    command->add_flag("--json", options->json, "for scripts: ranges are [first, count]");
    command->footer(
        "Every sample number lies in exactly one commit, or is leased, returned or listed as "
        "skipped.\n"
        "Exit code 3 when the journal does not prove it.");
    command->callback(
        [options, &context] { run_ledger(context, options->run, options->rounds, options->json); });
}

}  // namespace

void add_data_command(CLI::App& app, CommandContext& context) {
    auto* data = app.add_subcommand("data", "Token files: prepare, import, look at");
    data->require_subcommand(1);
    add_prepare(*data, context);
    add_import(*data, context);
    add_info(*data, context);
    add_ledger(*data, context);
}

}  // namespace isthmus::launch
