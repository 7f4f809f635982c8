module gitwork.dev/kubernetes-schemas

go 1.24.0
