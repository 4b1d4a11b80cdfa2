#!/bin/bash
# Ask a server of this container whether it is well: `health PORT PATH`; exit 0 if the status is 200. A shell takes a
# few milliseconds for it, an interpreter a tenth of a second of a processor.
exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
printf 'GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' "$2" >&3
read -r -t 9 _ status _ <&3 && [ "$status" = 200 ]
