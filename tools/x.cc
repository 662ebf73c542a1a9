namespace oneflow {}
