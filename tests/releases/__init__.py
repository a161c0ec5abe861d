"""What a release says to its database, kept so that the next release's schema can be held to it.

    collecting   the statements of the package, as they are now
    story        one of everything that this code does with its database; parts of it in producing
                 and accounts, who speaks in actors
    recording    the story while it is told: each statement, its parameters, its answer
    snapshot     the last release's statements and calls as files, in <version>/ beside this page
    replaying    the calls of a snapshot once more, on a database with another schema

`make snapshot` tells the story and writes the files; `make release` does so for each release.
"""
