/* JSON files of a folder: read, absent, damaged, unreadable. */
#include "check.h"
#include "io/file.h"

int main(void)
{
    char folder[] = "/tmp/hilbert-parse-XXXXXX", path[HIL_PATH_MAX];
    json_t *object;
    CHECK(mkdtemp(folder) != NULL);
    CHECK_OK(hil_file_parse(folder, "a.json", &object));
    CHECK(object == NULL);
    CHECK_OK(hil_path_join(path, folder, "a.json"));
    CHECK_OK(hil_file_write(path, "{\"x\": 3}", 8));
    CHECK_OK(hil_file_parse(folder, "a.json", &object));
    CHECK_INT(json_integer_value(json_object_get(object, "x")), 3);
    json_decref(object);
    CHECK_OK(hil_file_write(path, "{\"x\": ", 6));
    CHECK_FAILS(hil_file_parse(folder, "a.json", &object), HIL_ERR_INPUT, path);
    CHECK(object == NULL);
    CHECK_OK(hil_file_remove_tree(path));
    CHECK_OK(hil_dir_create(path)); /* a folder of that name */
    CHECK(hil_file_parse(folder, "a.json", &object) != HIL_OK && object == NULL);
    CHECK_OK(hil_file_remove_tree(folder));
    return 0;
}
