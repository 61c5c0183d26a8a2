# cmake -DIN=FILE -DNAME=NAME -DOUT=HEADER -P embed.cmake: HEADER defines NAME, an array of FILE's bytes.
file(READ ${IN} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "static const unsigned char ${NAME}[] = {\n${bytes}};\n")
