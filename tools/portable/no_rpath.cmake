# no_rpath.cmake -- remove the folders for libraries from FILE, which needs none where it goes.
file(RPATH_REMOVE FILE ${FILE})
