module weir.invalid/goregexp

go 1.25
