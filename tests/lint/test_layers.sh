# Includes point right only, through the whole tree.
exec "$SOURCE/tools/lint.sh" --layers
