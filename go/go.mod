module github.com/tenure-js/tenure/go

go 1.24.0
