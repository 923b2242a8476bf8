#include "launch/hugging_face_folder.hpp"

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "inner/model/hugging_face.hpp"
#include "tests/support/faulty_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace isthmus::launch {
namespace {

using checkpoint::FileType;
using checkpoint::SafetensorsWriter;
using Units = std::vector<std::vector<float>>;

inner::ModelConfig config(const std::string& family) {
    inner::ModelConfig m;
    m.preset = "custom";
    m.family = family;
    m.vocab = 20;
    m.d_model = 12;
    m.num_layers = 2;
    m.num_heads = 3;
    m.ffn_dim = 10;
    m.context = 8;
    m.resolve();
    return m;
}

Units values_of(const inner::Layout& layout) {
    Units units;
    float next = 0;
    for (const inner::Unit& u : layout.units) {
        units.emplace_back(static_cast<std::size_t>(u.count));
        for (float& x : units.back()) x = next++;
    }
    return units;
}

class Folder : public testing::Test {
  protected:
    Path path() const { return folder_.path() / "model"; }
    void save(const inner::ModelConfig& m, const Units& units, FileType type = FileType::kF32) {
        save_model_folder(
            *files_, path(), m, inner::make_layout(m),
            [&](UnitId id) { return std::span<const float>(units[id.value]); }, type);
    }
    Units load() {
        const ModelFolder model = load_model_folder(*files_, path());
        Units units;
        for (std::uint32_t u = 0; u < model.layout.units.size(); ++u) {
            units.emplace_back(static_cast<std::size_t>(model.layout.units[u].count), NAN);
            model.read_unit(UnitId(u), units.back());
        }
        return units;
    }
    std::string refusal() {
        try {
            load_model_folder(*files_, path());
        } catch (const Fatal& e) {
            EXPECT_EQ(e.code(), ExitCode::kInput);
            return e.what();
        }
        return "accepted";
    }
    /// Writes config.json and a model.safetensors of the given tensors, all zero.
    void put(const inner::ModelConfig& m, const std::vector<SafetensorsWriter::Tensor>& tensors) {
        ASSERT_TRUE(files_->make_folders(path()));
        std::ofstream(path() / "config.json") << inner::to_hugging_face(m);
        auto writer = SafetensorsWriter::create(*files_, path() / "model.safetensors", tensors);
        for (const auto& t : tensors) {
            std::int64_t n = 1;
            for (const std::int64_t d : t.dims) n *= d;
            writer->write(std::vector<float>(static_cast<std::size_t>(n)));
        }
        writer->finish();
    }
    std::vector<SafetensorsWriter::Tensor> tensors_of(const inner::ModelConfig& m) {
        std::vector<SafetensorsWriter::Tensor> tensors;
        for (const auto& t : inner::hugging_face_tensors(m, inner::make_layout(m))) {
            tensors.push_back({t.name, FileType::kF32, t.dims});
        }
        return tensors;
    }
    std::string text(const std::string& name) {
        std::ifstream in(path() / name, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }

    test::TemporaryFolder folder_;
    std::unique_ptr<FileSystem> files_ = posix_files();
};

TEST_F(Folder, SavesWhatItLoads) {
    for (const char* family : {"gpt2", "llama"}) {
        const inner::ModelConfig m = config(family);
        const Units units = values_of(inner::make_layout(m));
        save(m, units);
        EXPECT_EQ(load(), units) << family;
        EXPECT_EQ(files_->list(path()).value().size(), 2u);  // no temporary stays
    }
}

TEST_F(Folder, Bf16HalvesTheFile) {
    const inner::ModelConfig m = config("llama");
    Units units = values_of(inner::make_layout(m));
    for (auto& u : units) {
        for (float& x : u) x = static_cast<float>(static_cast<int>(x) % 256);  // exact in bf16
    }
    save(m, units, FileType::kBF16);
    EXPECT_EQ(load(), units);
    EXPECT_LT(text("model.safetensors").size(),
              static_cast<std::size_t>(inner::make_layout(m).count()) * 2 + 4096);
}

TEST_F(Folder, Conv1dIsTransposed) {
    const inner::ModelConfig m = config("gpt2");
    const inner::Layout layout = inner::make_layout(m);
    const Units units = values_of(layout);
    save(m, units);
    const auto reader = checkpoint::SafetensorsReader::open(*files_, path());
    const auto* entry = reader->find("transformer.h.1.mlp.c_fc.weight");
    ASSERT_NE(entry, nullptr);
    ASSERT_EQ(entry->dims, (std::vector<std::int64_t>{12, 10}));  // [in, out]
    std::vector<float> file(120);
    reader->read(*entry, 0, file);
    const inner::Unit& block = layout[layout.block(1)];
    const auto at = static_cast<std::size_t>(block.view("block.1.up.weight").offset);
    for (std::size_t out = 0; out < 10; ++out) {
        for (std::size_t in = 0; in < 12; ++in) {
            EXPECT_EQ(file[in * 10 + out], units[2][at + out * 12 + in]);
        }
    }
}

TEST_F(Folder, NamesWithoutTheRootAndRedundantTensorsLoad) {
    const inner::ModelConfig m = config("gpt2");
    auto tensors = tensors_of(m);
    for (auto& t : tensors) t.name = t.name.substr(std::strlen("transformer."));
    tensors.push_back({"h.0.attn.bias", FileType::kF32, {1, 1, 8, 8}});
    tensors.push_back({"lm_head.weight", FileType::kF32, {20, 12}});
    put(m, tensors);
    EXPECT_EQ(load().size(), 4u);
}

TEST_F(Folder, RefusesMissingUnknownAndMisshapenTensors) {
    const inner::ModelConfig m = config("llama");
    for (std::size_t i = 0; i < tensors_of(m).size(); ++i) {
        auto tensors = tensors_of(m);
        const std::string name = tensors[i].name;
        tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(i));
        put(m, tensors);
        EXPECT_NE(refusal().find("\"" + name + "\" is missing"), std::string::npos) << refusal();
    }
    auto tensors = tensors_of(m);
    tensors.push_back({"model.layers.0.self_attn.q_proj.bias", FileType::kF32, {12}});
    put(m, tensors);
    EXPECT_NE(refusal().find("q_proj.bias"), std::string::npos);
    tensors = tensors_of(m);
    std::swap(tensors[2].dims[0], tensors[2].dims.emplace_back(1));
    put(m, tensors);
    EXPECT_NE(refusal().find("has shape [1, 12, 12]"), std::string::npos) << refusal();
}

TEST_F(Folder, RefusesWhatIsNoModelFolder) {
    EXPECT_NE(refusal().find("no config.json"), std::string::npos);
    put(config("llama"), tensors_of(config("llama")));
    std::filesystem::remove(path() / "model.safetensors");
    EXPECT_NE(refusal().find("model.safetensors"), std::string::npos);
}

TEST_F(Folder, AConfigThatClaimsMuchIsRefusedBeforeAllocating) {
    put(config("llama"), tensors_of(config("llama")));
    auto json = nlohmann::json::parse(text("config.json"));
    json["vocab_size"] = 1 << 24;
    json["hidden_size"] = 1 << 17;
    std::ofstream(path() / "config.json") << json.dump();
    EXPECT_NE(refusal().find("has shape [20, 12], but config.json asks for [16777216, 131072]"),
              std::string::npos)
        << refusal();
}

TEST_F(Folder, AnInterruptedSaveNeverPairsOldAndNew) {
    const inner::ModelConfig old_model = config("llama"), new_model = config("gpt2");
    const Units old_units = values_of(inner::make_layout(old_model));
    save(old_model, old_units);
    // The writer gives up before the new tensors are complete: the old model is untouched.
    const Units new_units = values_of(inner::make_layout(new_model));
    int asked = 0;
    EXPECT_THROW(save_model_folder(*files_, path(), new_model, inner::make_layout(new_model),
                                   [&](UnitId id) {
                                       if (++asked == 20) throw fatal(ExitCode::kInternal, "stop");
                                       return std::span<const float>(new_units[id.value]);
                                   }),
                 Fatal);
    EXPECT_EQ(load(), old_units);
    EXPECT_EQ(files_->list(path()).value().size(), 2u);
    save(new_model, new_units);
    EXPECT_EQ(load(), new_units);
}

/// Every call that can fail fails once, from the first on: what is left must be one whole model or
/// none.
TEST_F(Folder, AFailedSaveLeavesTheOldModelTheNewOneOrNone) {
    using test::FileOp;
    const inner::ModelConfig old_model = config("llama"), new_model = config("gpt2");
    const Units old_units = values_of(inner::make_layout(old_model));
    const Units new_units = values_of(inner::make_layout(new_model));
    for (const FileOp op :
         {FileOp::kMakeFolders, FileOp::kCreate, FileOp::kAppend, FileOp::kSync, FileOp::kClose,
          FileOp::kRename, FileOp::kRemove, FileOp::kSyncFolder}) {
        const bool needs_space = op == FileOp::kCreate || op == FileOp::kAppend ||
                                 op == FileOp::kSync || op == FileOp::kClose;
        for (std::uint64_t nth = 1; nth < 100; ++nth) {
            save(old_model, old_units);
            test::FaultyFiles faulty(*files_);
            faulty.fail({.op = op, .nth = nth, .error = ENOSPC});
            try {
                save_model_folder(
                    faulty, path(), new_model, inner::make_layout(new_model),
                    [&](UnitId id) { return std::span<const float>(new_units[id.value]); });
                EXPECT_EQ(load(), new_units);
                break;  // all calls of this kind have had their turn
            } catch (const Fatal& e) {
                EXPECT_EQ(e.code(), ExitCode::kResources);
            }
            const std::string state = refusal();
            if (needs_space) {
                EXPECT_EQ(load(), old_units) << static_cast<int>(op) << " " << nth;
            }
            if (state == "accepted") {
                const Units left = load();
                EXPECT_TRUE(left == old_units || left == new_units);
            } else {
                EXPECT_NE(state.find("no config.json"), std::string::npos) << state;
            }
            const auto entries = files_->list(path());
            for (const Path& file : entries.value())
                EXPECT_NE(file.extension(), ".tmp") << static_cast<int>(op) << " " << nth;
        }
    }
}

TEST_F(Folder, GoldenFixturesOfTransformersLoad) {
    for (const char* name :
         {"gpt2", "llama_gqa", "llama3_tied", "llama_linear", "qwen2", "qwen3", "mistral"}) {
        const ModelFolder model =
            load_model_folder(*files_, Path(ISTHMUS_SOURCE_DIR) / "tests/inner/golden" / name);
        std::vector<float> unit(static_cast<std::size_t>(model.layout.units[1].count), NAN);
        model.read_unit(UnitId(1), unit);
        for (const float x : unit) EXPECT_TRUE(std::isfinite(x)) << name;
        EXPECT_TRUE(model.notes.empty()) << name;
    }
}

}  // namespace
}  // namespace isthmus::launch
