/* file_type.c - the suffixes of data files, and advice for those that are not supported. */
#include "data/file_type.h"

#include <string.h>
#include <strings.h>

#define UNPACK(command) "decompress it first (" command "); .gz and .zst are read as they are"
#define WEIGHTS "it holds weights or Python objects, not text; name text, JSONL or .npy files"
#define DOCUMENT "export its text first, and name the .txt file"

static const struct refused {
    const char *suffix, *what, *advice;
} refused[] = {
    {".xlsx", "Excel", HIL_DATA_TO_JSONL("read_excel('FILE.xlsx')")},
    {".npz", "an archive of arrays", "save one array of token ids with numpy.save as FILE.npy"},
    {".xz", "xz", UNPACK("xz -d")},
    {".bz2", "bzip2", UNPACK("bzip2 -d")},
    {".lz4", "LZ4", UNPACK("lz4 -d")},
    {".7z", "7-Zip", UNPACK("7z x")},
    {".zip", "zip", UNPACK("unzip")},
    {".tar", "tar", "unpack it (tar xf) and name the folder"},
    {".tgz", "tar", "unpack it (tar xf) and name the folder"},
    {".safetensors", "safetensors", WEIGHTS},
    {".gguf", "GGUF", WEIGHTS},
    {".bin", "a binary format", WEIGHTS},
    {".pt", "a PyTorch file", WEIGHTS},
    {".pth", "a PyTorch file", WEIGHTS},
    {".ckpt", "a checkpoint", WEIGHTS},
    {".pkl", "a pickle", WEIGHTS},
    {".pickle", "a pickle", WEIGHTS},
    {".pdf", "PDF", DOCUMENT},
    {".docx", "Word", DOCUMENT},
    {".epub", "EPUB", DOCUMENT},
};

/* Whether the first `size` characters end with `suffix` and the name has characters before it. */
static bool ends_with(const char *path, size_t size, const char *suffix)
{
    size_t tail = strlen(suffix);
    return size > tail && path[size - tail - 1] != '/' &&
           strncasecmp(path + size - tail, suffix, tail) == 0;
}

/* Removes the suffix of a compression from *size. */
static hil_compression strip(const char *path, size_t *size)
{
    hil_compression found = ends_with(path, *size, ".gz")    ? HIL_GZIP
                            : ends_with(path, *size, ".zst") ? HIL_ZSTD
                                                             : HIL_COMPRESSION_NONE;
    if (found != HIL_COMPRESSION_NONE) *size -= found == HIL_GZIP ? 3 : 4;
    return found;
}

/* NULL: none. */
static const struct refused *find_refused(const char *path, size_t size)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i)
        if (ends_with(path, size, refused[i].suffix)) return &refused[i];
    return NULL;
}

bool hil_file_type_refused(const char *path)
{
    size_t size = strlen(path);
    strip(path, &size);
    return find_refused(path, size) != NULL;
}

/* Feather is Arrow under another name. */
static bool is_arrow(const char *path, size_t size)
{
    return ends_with(path, size, ".arrow") || ends_with(path, size, ".feather");
}

bool hil_file_type_is_table(hil_data_kind kind)
{
    return kind == HIL_DATA_CSV || kind == HIL_DATA_TSV || kind == HIL_DATA_PARQUET ||
           kind == HIL_DATA_ARROW;
}

hil_status hil_file_type_read(hil_file_type *type, const char *path)
{
    size_t size = strlen(path);
    *type = (hil_file_type){.compression = strip(path, &size)};
    const struct refused *other = find_refused(path, size);
    if (other)
        return hil_fail(HIL_ERR_INPUT, "%s is %s by its name, which is not read: %s", path,
                        other->what, other->advice);
    if (ends_with(path, size, ".jsonl") || ends_with(path, size, ".ndjson"))
        type->kind = HIL_DATA_JSONL;
    if (ends_with(path, size, ".json")) type->kind = HIL_DATA_JSON;
    if (ends_with(path, size, ".csv")) type->kind = HIL_DATA_CSV;
    if (ends_with(path, size, ".tsv")) type->kind = HIL_DATA_TSV;
    if (ends_with(path, size, ".npy")) type->kind = HIL_DATA_TOKENS;
    if (ends_with(path, size, ".parquet")) type->kind = HIL_DATA_PARQUET;
    if (is_arrow(path, size)) type->kind = HIL_DATA_ARROW;
    if (type->kind >= HIL_DATA_PARQUET && type->compression != HIL_COMPRESSION_NONE)
        return hil_fail(HIL_ERR_INPUT, "%s: %s not read compressed; decompress it first", path,
                        type->kind == HIL_DATA_TOKENS  ? "token ids are"
                        : type->kind == HIL_DATA_ARROW ? "an Arrow file is"
                                                       : "a Parquet file is");
    return HIL_OK;
}

bool hil_file_type_known(const char *path)
{
    size_t size = strlen(path);
    bool compressed = strip(path, &size) != HIL_COMPRESSION_NONE;
    if (ends_with(path, size, ".npy") || ends_with(path, size, ".parquet") || is_arrow(path, size))
        return !compressed;
    return ends_with(path, size, ".txt") || ends_with(path, size, ".jsonl") ||
           ends_with(path, size, ".ndjson");
}
