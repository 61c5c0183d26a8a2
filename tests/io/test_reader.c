/* Reads at any offset of a file, and files that cannot be read. */
#include "io/reader.h"

#include "check.h"
#include "io/file.h"

int main(void)
{
    char folder[] = "/tmp/hilbert-reader-XXXXXX", path[64], bytes[16];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/file", folder);
    CHECK_OK(hil_file_write(path, "0123456789", 10));
    hil_reader *reader;
    size_t got;
    CHECK_OK(hil_reader_open(&reader, path));
    CHECK_INT(hil_reader_size(reader), 10);
    CHECK_TEXT(hil_reader_path(reader), path);
    CHECK_OK(hil_reader_read(reader, 3, bytes, 4, &got));
    CHECK_INT(got, 4);
    CHECK(memcmp(bytes, "3456", 4) == 0);
    CHECK_OK(hil_reader_read(reader, 7, bytes, 16, &got));
    CHECK_INT(got, 3);
    CHECK(memcmp(bytes, "789", 3) == 0);
    CHECK_OK(hil_reader_read(reader, 10, bytes, 16, &got));
    CHECK_INT(got, 0);
    hil_reader_close(reader);

    CHECK_FAILS(hil_reader_open(&reader, folder), HIL_ERR_INPUT, "not a regular file");
    CHECK(reader == NULL);
    CHECK_OK(hil_file_remove_tree(folder));
    CHECK_FAILS(hil_reader_open(&reader, path), HIL_ERR_IO, "No such file");
    hil_reader_close(NULL);
    return 0;
}
