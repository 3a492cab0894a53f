module example.com/leader

go 1.24.0

require github.com/tenure-js/tenure/go v0.0.0

// Remove this line in a program of your own.
replace github.com/tenure-js/tenure/go => ../../go
