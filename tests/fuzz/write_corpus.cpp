// Writes the seed inputs into a folder: write_corpus tests/fuzz/corpus
#include <cstdio>
#include <fstream>

#include "tests/fuzz/decoders.hpp"

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fputs("usage: write_corpus FOLDER\n", stderr);
        return 2;
    }
    for (const auto& [name, bytes] : isthmus::test::seed_inputs()) {
        std::ofstream out(std::string(argv[1]) + "/" + name, std::ios::binary);
        out.write(reinterpret_cast<const char*>(bytes.data()),
                  static_cast<std::streamsize>(bytes.size()));
        if (!out.flush()) {
            std::fprintf(stderr, "write_corpus: cannot write %s/%s\n", argv[1], name.c_str());
            return 1;
        }
    }
    return 0;
}
