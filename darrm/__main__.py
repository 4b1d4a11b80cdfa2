"""``python -m darrm VERB …``: the same as ``darrm VERB …``."""

from darrm import main

if __name__ == "__main__":
    main()
