#include "tests/fuzz/decoders.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "base/append_log.hpp"
#include "base/record.hpp"
#include "net/frame.hpp"
#include "outer/data_plane.hpp"
#include "outer/journal.hpp"
#include "outer/messages.hpp"
#include "outer/round_result.hpp"
#include "outer/state_transfer.hpp"
#include "tests/outer/support/sample_messages.hpp"
#include "tests/support/crash_files.hpp"

namespace isthmus::test {

namespace {

using Bytes = std::span<const std::byte>;

constexpr net::FrameRules kRules{.run = net::RunId(7),
                                 .num_kinds = outer::kNumMessageKinds,
                                 .max_payload_bytes = outer::kMaxMessageBytes};
const Path kLog = "run/journal";
std::uint64_t taken = 0;

void expect_same(Bytes in, Bytes out) {
    ++taken;
    CHECK(std::equal(in.begin(), in.end(), out.begin(), out.end()),
          "{} bytes were taken and are written as {} others", in.size(), out.size());
}

void decode_message(std::uint16_t kind, Bytes payload) {
    const auto message = outer::decode(kind, payload);
    if (message) expect_same(payload, outer::encode(*message));
}

void read_frame(Bytes bytes) {
    const auto frame = net::parse_frame(bytes, kRules);
    if (!frame) return;
    expect_same(bytes, net::make_frame(kRules.run, *frame));
    decode_message(frame->kind, frame->payload);
}

void read_message(Bytes bytes) {
    if (bytes.empty()) return;
    decode_message(std::to_integer<std::uint16_t>(bytes[0]), bytes.subspan(1));
}

void read_record(Bytes bytes) {
    const auto record = outer::decode_record(bytes);
    if (record) expect_same(bytes, outer::encode_record(*record));
}

template <class T>
void read_as(Bytes bytes) {
    const auto record = unpack<T>(bytes);
    if (record) expect_same(bytes, pack(*record));
}

/// A whole log opens; what it holds is then a log's beginning, and the rest a torn tail.
void read_log(Bytes bytes) {
    CrashFiles files;
    files.set_content(kLog, {bytes.begin(), bytes.end()});
    auto opened = AppendLog::open(files, kLog, 1);
    if (!opened) return;
    CHECK(opened->log->bytes() + opened->cut_bytes == bytes.size());
    expect_same(bytes.first(opened->log->bytes()), files.content(kLog));
}

using Decoder = void (*)(Bytes);
constexpr Decoder kDecoders[] = {read_frame,
                                 read_message,
                                 read_record,
                                 read_as<outer::Want>,
                                 read_as<outer::ResultInfo>,
                                 read_as<outer::CopyInfo>,
                                 read_log};
enum Choice : std::uint8_t { kFrame, kMessage, kRecord, kWant, kResultInfo, kCopyInfo, kJournal };

std::vector<std::uint8_t> input(Choice choice, Bytes bytes) {
    std::vector<std::uint8_t> out{choice};
    for (std::byte b : bytes) out.push_back(std::to_integer<std::uint8_t>(b));
    return out;
}

}  // namespace

std::uint64_t inputs_taken() {
    return taken;
}

std::vector<std::pair<std::string, std::vector<std::uint8_t>>> seed_inputs() {
    std::vector<std::pair<std::string, std::vector<std::uint8_t>>> seeds;
    for (const outer::Message& message : outer::test::sample_messages()) {
        const auto payload = outer::encode(message);
        std::vector<std::byte> with_kind{static_cast<std::byte>(outer::kind_of(message))};
        with_kind.insert(with_kind.end(), payload.begin(), payload.end());
        const std::string name(outer::name_of(message));
        seeds.emplace_back("message_" + name, input(kMessage, with_kind));
    }
    const outer::Message beat = outer::test::sample_messages().back();
    seeds.emplace_back(
        "frame", input(kFrame, net::make_frame(kRules.run, {.kind = outer::kind_of(beat),
                                                            .sender = net::kCoordinator,
                                                            .payload = outer::encode(beat)})));
    std::vector<std::vector<std::byte>> records;
    for (const outer::JournalRecord& record : outer::test::sample_records()) {
        records.push_back(outer::encode_record(record));
        seeds.emplace_back(fmt::format("record_{}", record.index()),
                           input(kRecord, records.back()));
    }
    const auto state = outer::test::sample_state(3);
    const outer::Attempt attempt{Round(3), FragmentId(0), 2, 5};
    const outer::ItemId items[] = {outer::CutItem{{SiteId(1), 2, 3}}, outer::MeanItem{attempt},
                                   outer::ResultItem{state}, outer::CopyItem{state, true}};
    for (const outer::ItemId& item : items)
        seeds.emplace_back(fmt::format("want_{}", item.index()),
                           input(kWant, pack(outer::Want{item, outer::kHeader})));
    const outer::ResultInfo result{state,
                                   outer::test::sample_state(4),
                                   attempt,
                                   outer::Method::kOwners,
                                   outer::Codec::kInt8,
                                   {},
                                   {SiteId(0), SiteId(1)},
                                   {0.5f, 1.5f}};
    seeds.emplace_back("result_info", input(kResultInfo, pack(result)));
    const outer::CopyInfo copy{state, 300, 4000, 4000, 9000, outer::test::sample_hash(5)};
    seeds.emplace_back("copy_info", input(kCopyInfo, pack(copy)));
    CrashFiles files;
    {
        auto opened = AppendLog::open(files, kLog, 77);
        const auto all = std::span<const std::vector<std::byte>>(records);
        CHECK(opened && opened->log->append(all.first(3)) &&
              opened->log->append(all.subspan(3, 2)) && opened->log->append(all.subspan(5, 1)));
    }
    seeds.emplace_back("journal", input(kJournal, files.content(kLog)));
    return seeds;
}

}  // namespace isthmus::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace isthmus::test;
    if (size == 0) return 0;
    const auto bytes = std::as_bytes(std::span(data, size));
    kDecoders[data[0] % std::size(kDecoders)](bytes.subspan(1));
    return 0;
}
